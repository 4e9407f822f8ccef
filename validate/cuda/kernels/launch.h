// What every kernel is launched with. Plain declarations, for .cu files too.
#pragma once

#include <cstdint>

struct CUstream_st;  // *cudaStream_t

namespace gpuplan::cuda {

struct LaunchContext {
  CUstream_st* stream = nullptr;
  int multiprocessors = 1;
  int compute_capability = 0;  // 10 * major + minor
  /// Partial sums of the kernel that runs: one stream, so one kernel at a time has them.
  void* partials = nullptr;
  std::int64_t partial_bytes = 0;
};

/// Throws Error where the launch just made was refused. `kernel` names it.
void check_launch(const char* kernel);

/// Throws Error: an operand that no kernel is written for.
[[noreturn]] void refuse(const char* why);

/// How many blocks of `each` elements cover `elements`, at most `most`: kernels step by the whole grid.
inline unsigned blocks_for(std::int64_t elements, std::int64_t each, std::int64_t most = 1 << 20) {
  const std::int64_t blocks = elements / each + (elements % each != 0 ? 1 : 0);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

}  // namespace gpuplan::cuda
