// What a kernel is given: which device memory it can reach, and a text for launches.PID.tsv.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "validate/shadow/runtime/cubin.h"

namespace gpuplan::shadow {

/// How much a kernel can write through one of its arguments.
enum class Writes {
  nothing,         // a pointer to const, or a structure of inputs
  first,           // through the first address in it: that of the result, in PyTorch's elementwise kernels
  behind_strides,  // as `first`, in those whose operands have strides
  but_first,       // through all but the first: that of the source, in PyTorch's reductions
  all,
};

/// For each of `count` arguments what the kernel of this mangled name can write through it, by the types in its name;
/// `all` for each where the name has none (a Triton kernel's).
std::vector<Writes> writes_of(const std::string& mangled_name, std::size_t count);

/// The addresses of device memory that the kernel can write at, also inside structures passed by value (as PyTorch
/// passes arrays of pointers); `writes` has an element for each parameter. Valid until this thread's next call.
std::span<const std::uintptr_t> written_addresses(const KernelResources& kernel, const std::vector<Writes>& writes,
                                                  void** arguments);

/// Each argument's bytes in hexadecimal, most significant first; `*` before a device pointer.
std::string describe_arguments(const KernelResources& kernel, void** arguments);

}  // namespace gpuplan::shadow
