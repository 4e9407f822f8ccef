#include "validate/load_device.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "estimator/base/error.h"
#include "validate/cuda/module.h"
#include "validate/shadow/session.h"

namespace gpuplan {
namespace {

Error environment(std::string message) { return Error(std::move(message), ErrorKind::environment); }

// Beside the program in a build tree, under its prefix when installed.
std::filesystem::path find_module() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& candidate : {folder, folder / "../lib/gpuplan", folder / "../lib64/gpuplan"})
    if (fs::exists(candidate / kModuleFile, ignored)) return candidate / kModuleFile;
  throw environment(std::string("no ") + kModuleFile + " next to the program: it was built without CUDA")
      .help("install the CUDA toolkit and cuDNN and build again; estimates need neither");
}

template <class Function>
Function symbol(void* module, const char* name) {
  void* const found = dlsym(module, name);
  if (found == nullptr)
    throw environment(std::string(kModuleFile) + " has no " + name + ": it comes from a different build");
  return reinterpret_cast<Function>(found);
}

}  // namespace

std::unique_ptr<Device> load_device(int ordinal) {
  const std::filesystem::path path = find_module();
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: the device's code is in it
  if (module == nullptr) {
    const char* why = dlerror();
    throw environment(std::string("the CUDA module cannot be loaded: ") + (why != nullptr ? why : "no reason given"))
        .help("it needs the CUDA runtime, cuBLAS and cuDNN libraries where the loader finds them (LD_LIBRARY_PATH)");
  }
  if (symbol<ModuleAbi>(module, kModuleAbiSymbol)() != kModuleAbi)
    throw environment(path.string() + " comes from a different build than the program");
  std::array<char, 512> why{};
  Device* const device = symbol<ModuleOpen>(module, kModuleOpenSymbol)(ordinal, why.data(), why.size());
  if (device == nullptr) throw environment(std::string("no GPU to run on: ") + why.data());
  return std::unique_ptr<Device>(device);
}

bool device_is_a_shadow() { return std::getenv(shadow::kSessionVariable) != nullptr; }

}  // namespace gpuplan
