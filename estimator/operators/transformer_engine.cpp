#include "estimator/operators/transformer_engine.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "estimator/base/dtype.h"
#include "estimator/base/integers.h"

namespace gpuplan::transformer_engine {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kFp32 = 4;

// REGISTER_NORM_LAUNCHER of rmsnorm/rmsnorm_bwd_semi_cuda_kernel.cu in bf16: rows that a block of threads has at once,
// and how many blocks are on a multiprocessor of A100s (8.0), Ada (8.9) and Hopper (9.0), as
// cudaOccupancyMaxActiveBlocksPerMultiprocessor says of what NVRTC 13.2 makes of it.
struct Kernel {
  std::int64_t columns, rows, ampere, ada, hopper;
};
constexpr std::array kTuned{Kernel{512, 4, 6, 6, 6},  Kernel{768, 4, 4, 4, 4},  Kernel{1024, 4, 3, 3, 3},
                            Kernel{2048, 1, 6, 6, 5}, Kernel{4096, 1, 3, 3, 3}, Kernel{8192, 1, 2, 2, 2}};
constexpr std::array kGeneral{Kernel{128, 4, 10, 12, 12}, Kernel{512, 4, 5, 5, 4}, Kernel{1024, 4, 3, 3, 3},
                              Kernel{2048, 1, 5, 5, 5}, Kernel{4096, 1, 3, 3, 3}};
constexpr Kernel kWidestForward{8192, 1, 2, 2, 2};  // of rmsnorm_fwd_cuda_kernel.cu; narrower rows take one block each

bool is_hopper(const Gpu& gpu) { return gpu.capability_major == 9; }

std::int64_t blocks_at_once(const Kernel& kernel, const Gpu& gpu) {
  if (!knows(gpu)) throw std::logic_error("Transformer Engine's norms were not asked about on this GPU");
  if (is_hopper(gpu)) return gpu.sm_count * kernel.hopper;
  return gpu.sm_count * (gpu.capability_minor == 9 ? kernel.ada : kernel.ampere);
}

// LaunchParams::alignWorkspace()
std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, 16); }

// Several blocks a row wait for each other, and exchange a number of each of their rows, twice.
std::int64_t exchanged(const Kernel& kernel, std::int64_t across, std::int64_t down, std::int64_t number) {
  if (across == 1) return 0;
  return aligned(2 * down * size_of(DType::int32)) + aligned(down * kernel.rows * across * number * 2);
}

}  // namespace

bool knows(const Gpu& gpu) {
  const int capability = 10 * gpu.capability_major + gpu.capability_minor;
  return capability == 80 || capability == 89 || capability == 90;
}

std::int64_t product_workspace(const Gpu& gpu) {
  return gpu.capability_major >= 9 ? 32 * kMebibyte + 1024 : 4 * kMebibyte;
}

std::int64_t rms_norm_workspace(std::int64_t rows, std::int64_t columns, const Gpu& gpu) {
  const std::int64_t across = ceil_div(columns, kWidestForward.columns);
  const std::int64_t down = std::min(rows, blocks_at_once(kWidestForward, gpu) / across);
  return std::max<std::int64_t>(exchanged(kWidestForward, across, down, kFp32), 1);
}

std::int64_t rms_norm_backward_workspace(std::int64_t rows, std::int64_t columns, const Gpu& gpu) {
  const auto tuned = std::ranges::find(kTuned, columns, &Kernel::columns);
  if (rows % 4 == 0 && tuned != kTuned.end()) return aligned(blocks_at_once(*tuned, gpu) * columns * kFp32);
  const auto wide_enough = std::ranges::lower_bound(kGeneral, columns, {}, &Kernel::columns);
  const Kernel& kernel = wide_enough == kGeneral.end() ? kGeneral.back() : *wide_enough;
  const std::int64_t across = ceil_div(columns, kernel.columns);
  const std::int64_t down = std::min(ceil_div(rows, kernel.rows), blocks_at_once(kernel, gpu) / across);
  return exchanged(kernel, across, down, 2 * kFp32) + aligned(checked_mul(down, columns) * kFp32);
}

std::int64_t widest_head(const Gpu& gpu) { return is_hopper(gpu) ? 256 : 128; }

// Not 0: that asks for its size (fused_attn_f16_arbitrary_seqlen.cu).
std::int64_t attention_workspace(const Gpu& gpu) { return is_hopper(gpu) ? 256 : 1; }

// In fp32 the queries' gradient and a sum a row, and before Hopper the gradient as it is summed, of 8 rows at a time;
// with fewer groups than heads, gradients of keys and values a head.
std::int64_t attention_backward_workspace(const AttentionSizes& s, const Gpu& gpu) {
  const std::int64_t samples = checked_mul(s.batch, s.heads), rows = checked_mul(samples, s.tokens);
  std::int64_t bytes = (is_hopper(gpu) ? 256 : 128) + checked_mul(rows, s.size + 1) * kFp32;
  if (!is_hopper(gpu))
    bytes = checked_add(bytes, checked_mul(checked_mul(samples, round_up(s.tokens, 8)), s.size) * kFp32);
  if (s.groups != s.heads)
    bytes = checked_add(bytes, checked_mul(checked_mul(samples, s.keys), 2 * s.size) * size_of(DType::bf16));
  return bytes;
}

}  // namespace gpuplan::transformer_engine
