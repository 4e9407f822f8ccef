// The real CUDA libraries that the program loads beside ours: what they are called, and functions of theirs that need
// no GPU (versions, error texts).
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <string>
#include <string_view>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct LibrarySearch {
  std::string_view prefix;
  std::string found;
};

int match(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<LibrarySearch*>(data);
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 == 0: no directory
  if (!name.starts_with(search.prefix)) return 0;
  search.found = path;
  return 1;
}

}  // namespace

thread_local bool looking_for_real = false;

std::string loaded_library(std::string_view prefix) {
  LibrarySearch search{prefix, {}};
  dl_iterate_phdr(match, &search);
  return search.found;
}

void* real_symbol(std::string_view prefix, const char* name) {
  const std::string path = loaded_library(prefix);
  if (path.empty()) return nullptr;
  // The reference is kept, so that the function stays where it is.
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  // dlsym() on a library looks there first, wherever the program's own references go.
  looking_for_real = true;
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  looking_for_real = false;
  return found;
}

int toolkit_version() {
  static std::atomic<int> known{0};
  if (const int version = known.load(std::memory_order_relaxed)) return version;
  // The real runtime answers a constant, without looking for a driver. Its name may carry a hash
  // (libcudart-1a2b3c.so.12), where auditwheel put it into a wheel.
  using GetVersion = int (*)(int*);
  const auto get = reinterpret_cast<GetVersion>(real_symbol("libcudart", "cudaRuntimeGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) return kNewestCuda;  // asked again: it may yet be loaded
  known.store(version, std::memory_order_relaxed);
  return version;
}

}  // namespace gpuplan::shadow
