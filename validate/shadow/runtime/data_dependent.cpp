#include "validate/shadow/runtime/data_dependent.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "validate/shadow/runtime/answers.h"
#include "validate/shadow/runtime/kernels.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Pattern {
  std::string_view part;  // of the kernel's mangled name
  const char* operators;
};

// What PyTorch 2.8's and 2.15's operators launch (aten/src/ATen/native/cuda: Nonzero.cu, Unique.cu, Repeat.cu,
// SummaryOps.cu; sparse/cuda for coalesce). CUB's selections are launched by nothing else there.
constexpr Pattern kPatterns[] = {
    {"DeviceSelectSweepKernel", "nonzero, indexing with a boolean mask, masked_select or unique"},
    {"DeviceUniqueByKeySweepKernel", "unique or a sparse tensor's coalesce"},
    {"kernelHistogram1D", "bincount or histc"},
    {"compute_cuda_kernel", "repeat_interleave with a tensor of repeats"},
};

// The kernels that this thread has launched lately, by address; others are looked at again, which is only slower.
thread_local std::array<const void*, 1024> looked_at;

std::size_t slot(const void* function) { return (reinterpret_cast<std::uintptr_t>(function) >> 4) % 1024; }

}  // namespace

void note_data_dependent(const void* function) {
  const void*& last = looked_at[slot(function)];
  if (last == function) return;
  last = function;
  if (python_notes_reads()) return;
  const std::string name = kernel_name(function);
  for (const Pattern& pattern : kPatterns) {
    if (name.find(pattern.part) == std::string::npos) continue;
    note_unknown(std::string(pattern.operators) +
                 ": the result's size depends on values, which are all zero on a shadow GPU");
  }
}

}  // namespace gpuplan::shadow
