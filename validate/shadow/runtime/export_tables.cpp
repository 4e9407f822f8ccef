// Private tables of NVIDIA's driver, by UUID: none. NVRTC, which is the wheel's own, compiles on the CPU and needs no
// GPU, asks for them first from CUDA 13 on, and goes on where a driver has none. A CUDA runtime that is linked into a
// program and was not replaced (linked_runtime.h) cannot do without: it ends there, and says only that a symbol was not
// found.
#include <dlfcn.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

/// Says it once for each library.
void say_linked_in(const std::string& library) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (!said->insert(library).second) return;
  const std::string text =
      library + " has the CUDA runtime linked in (libcudart_static), and no symbols by which to replace it";
  std::fprintf(stderr, "gpuplan shadow: %s; build it with -cudart shared\n", text.c_str());
  note_unknown(text);
}

}  // namespace
}  // namespace gpuplan::shadow

SHADOW_API int cuGetExportTable(const void** table, const void* /*uuid*/) {
  Dl_info caller{};
  if (dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != nullptr) {
    const std::string library = caller.dli_fname;
    if (!gpuplan::shadow::is_cuda_library(library.substr(library.rfind('/') + 1)))
      gpuplan::shadow::say_linked_in(library);
  }
  if (table != nullptr) *table = nullptr;
  return 500;  // CUDA_ERROR_NOT_FOUND
}
