// dlsym() of the program: a function of a real CUDA library, asked for by the library's handle (Python's ctypes, JAX,
// whatever loads its libraries late), is ours, as it is where the dynamic linker binds it. Without this
// the real function would be called, and find a driver that has none of its kernels. A library is asked for its first
// function once it is loaded, before it can have called CUDA: that is when a runtime linked into it is replaced.
//
// Only in the preloaded library: in a test, it would stand before the sanitizers' own.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <string_view>

#include "validate/shadow/runtime/linked_runtime.h"
#include "validate/shadow/runtime/runtime.h"

#if defined(__x86_64__)

namespace gpuplan::shadow {
namespace {

using LookUp = void* (*)(void*, const char*);

// libcudnn's parts call each other in this way, and what of them runs without a GPU shall find its own.
constexpr std::array<std::string_view, 9> kReplaced = {"libcudart",   "libnccl",     "libcublas",
                                                       "libcudnn.so", "libcufft",    "libcurand",
                                                       "libcusolver", "libcusparse", "libcupti"};

bool is_replaced(void* handle) {
  const link_map* object = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &object) != 0 || object == nullptr || object->l_name == nullptr) return false;
  const std::string_view path = object->l_name;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view prefix : kReplaced)
    if (name.starts_with(prefix)) return true;
  return false;
}

// Each is found by a version that glibc has had since it was one library (2.34), or always.
LookUp find_real() {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"})
    if (void* const found = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<LookUp>(found);
  return nullptr;
}

}  // namespace
}  // namespace gpuplan::shadow

extern "C" {

// The real one, where the assembly below finds it.
__attribute__((visibility("hidden"))) gpuplan::shadow::LookUp gpuplan_shadow_real_dlsym = nullptr;

// Our function, or null: the real dlsym() shall look.
__attribute__((visibility("hidden"))) void* gpuplan_shadow_own_function(void* handle, const char* name) {
  static const gpuplan::shadow::LookUp real = gpuplan_shadow_real_dlsym = gpuplan::shadow::find_real();
  if (gpuplan::shadow::looking_for_real || handle == RTLD_DEFAULT || handle == RTLD_NEXT || name == nullptr)
    return nullptr;
  gpuplan::shadow::replace_linked_runtimes(gpuplan::shadow::Constructors::done);
  const std::string_view text = name;
  if (!text.starts_with("cu") && !text.starts_with("nccl") && !text.starts_with("__cuda")) return nullptr;
  if (!gpuplan::shadow::is_replaced(handle)) return nullptr;
  static void* const self = [] {
    Dl_info here{};
    return dladdr(reinterpret_cast<void*>(&gpuplan_shadow_own_function), &here) != 0
               ? dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
               : nullptr;
  }();
  return self == nullptr ? nullptr : real(self, name);
}
}

// For RTLD_NEXT the real one looks at who called it, so that it is jumped to, not called.
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  endbr64
  pushq %rdi
  pushq %rsi
  subq $8, %rsp
  call gpuplan_shadow_own_function
  addq $8, %rsp
  popq %rsi
  popq %rdi
  testq %rax, %rax
  jne 1f
  jmpq *gpuplan_shadow_real_dlsym(%rip)
1:
  ret
  .size dlsym, . - dlsym
)");

#endif
