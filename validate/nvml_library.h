// libnvidia-ml.so.1, NVIDIA's management library, which comes with the driver: loaded when it is asked, since its
// headers and itself may be missing where this is built and run.
#pragma once

#include <dlfcn.h>

namespace gpuplan {

constexpr int kNvmlSuccess = 0;  // NVML_SUCCESS

/// Null where it is not on this machine. It stays loaded: so does the driver that it talks to.
inline void* open_nvml() { return dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL); }

/// Sets `function` to the library's of that name; false where it has none.
template <class Function>
bool find_in_nvml(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace gpuplan
