#include "estimator/operators/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

/// Shared memory that a kernel may ask for (sharedMemPerBlockOptin), in KiB: CUDA programming guide, table of
/// technical specifications per compute capability.
int shared_memory_kib(const Gpu& gpu) {
  const int capability = gpu.capability_major * 10 + gpu.capability_minor;
  if (capability < 70) return 48;
  if (capability < 75) return 96;
  if (capability < 80) return 64;
  if (capability == 80 || capability == 87) return 163;
  if (capability < 90) return 99;
  return capability < 120 ? 227 : 99;
}

}  // namespace

std::int64_t flash_rounded_head_size(std::int64_t head_size, PyTorchVersion pytorch) {
  if (pytorch >= 215) return round_up(head_size, head_size <= 128 ? 32 : 64);
  return head_size <= 192 ? round_up(head_size, 32) : 256;
}

std::int64_t flash_key_splits(std::int64_t batch_heads, std::int64_t queries, std::int64_t keys, std::int64_t head_size,
                              const Gpu& gpu) {
  const std::int64_t block_keys = head_size <= 64 ? 256 : head_size <= 128 ? 128 : 64;
  const std::int64_t key_blocks = ceil_div(keys, block_keys);
  const std::int64_t blocks = batch_heads * ceil_div(queries, 64);
  const std::int64_t slots = std::int64_t{gpu.sm_count} * 2;  // blocks of 128 threads
  if (static_cast<float>(blocks) >= 0.8F * static_cast<float>(slots)) return 1;
  const std::int64_t most = std::min({std::int64_t{128}, slots, key_blocks});
  const auto changes_blocks = [&](std::int64_t splits) {
    return splits == 1 || ceil_div(key_blocks, splits) != ceil_div(key_blocks, splits - 1);
  };
  const auto efficiency = [&](std::int64_t splits) {
    const float waves = static_cast<float>(blocks * splits) / static_cast<float>(slots);
    return waves / std::ceil(waves);
  };
  float best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    if (changes_blocks(splits)) best = std::max(best, efficiency(splits));
  }
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    if (changes_blocks(splits) && static_cast<double>(efficiency(splits)) >= 0.85 * static_cast<double>(best)) {
      return splits;
    }
  }
  return 1;
}

EfficientKernel efficient_backward_kernel(DType dtype, std::int64_t head_size, std::int64_t value_size, bool dropout,
                                          const Gpu& gpu) {
  // generate_kernels.py lists the kernels of an architecture by the largest head size, then by the largest block; the
  // first one that takes the call and fits in shared memory runs.
  const bool half = is_half(dtype);
  const std::int64_t size = std::max(head_size, value_size);
  const bool ampere = gpu.capability_major >= 8;
  const bool big_shared_memory = shared_memory_kib(gpu) >= 163;
  EfficientKernel kernel;
  // Half types beyond 128 preload nothing, and fit with 128 queries where smaller heads do not.
  const bool wide_blocks = ampere ? big_shared_memory || (half && size > 128) : half && gpu.capability_major >= 7;
  if (size > 64 && wide_blocks) kernel.block_queries = 128;
  const int capability = gpu.capability_major * 10 + gpu.capability_minor;
  const bool sm86_kernel = (capability == 86 || capability == 89) && half && !dropout && size > 64 && size <= 96;
  if (sm86_kernel) kernel.block_queries = 128;
  const std::int64_t largest = size <= 32 ? 32 : size <= 64 ? 64 : sm86_kernel ? 96 : size <= 128 ? 128 : 65536;
  kernel.gradients_in_registers = half && largest <= kernel.block_queries;
  const bool preloads = half && ampere && kernel.gradients_in_registers;
  if (preloads && largest > 64 && !sm86_kernel) kernel.block_keys = 128;
  kernel.computes_delta = half && (kernel.gradients_in_registers || ampere || gpu.capability_minor >= 5);
  return kernel;
}

std::int64_t efficient_workspace_bytes(const EfficientKernel& kernel, std::int64_t batch_heads, std::int64_t queries,
                                       std::int64_t keys, std::int64_t head_size, std::int64_t value_size, DType dtype,
                                       const Gpu& gpu) {
  const bool splits_keys = gpu.capability_major >= 7;
  const bool accumulates = is_half(dtype);  // the accumulator has another type than the gradients
  const bool key_tiles = accumulates && !kernel.gradients_in_registers;
  std::int64_t splits = ceil_div(keys, kernel.block_keys);
  if (batch_heads >= 256) splits = std::min<std::int64_t>(splits, 2);
  if (key_tiles) splits = std::min<std::int64_t>(splits, 200 / batch_heads);
  if (!splits_keys || splits < 1) splits = 1;

  std::int64_t floats = 0;
  if (key_tiles) {
    const std::int64_t columns = round_up(head_size, kernel.block_queries) + round_up(value_size, kernel.block_queries);
    floats += splits * kernel.block_keys * columns;
  }
  if (splits_keys || accumulates) {
    const std::int64_t tile = 4 + std::int64_t{kernel.block_queries} * kernel.block_keys;  // lock, counter, padding
    floats += ceil_div(queries, kernel.block_queries) * ceil_div(head_size, kernel.block_keys) * tile;
  }
  return checked_mul(checked_mul(batch_heads, round_up(floats, 4)), 4);
}

}  // namespace gpuplan
