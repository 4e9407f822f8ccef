// Extra allocations of attention kernels besides their results; used by attention.cpp only.
#pragma once

#include <cstdint>

#include "estimator/base/dtype.h"
#include "estimator/device/gpu.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// The head size that flash attention's fp32 accumulators have (flash_api.cpp, mha_fwd and mha_bwd).
std::int64_t flash_rounded_head_size(std::int64_t head_size, PyTorchVersion pytorch);

/// In how many parts flash attention splits the keys so that few queries fill the GPU; 1: no accumulators
/// (set_params_splitkv and num_splits_heuristic). `blocks`: batch * heads * blocks of 64 queries.
std::int64_t flash_key_splits(std::int64_t batch_heads, std::int64_t queries, std::int64_t keys, std::int64_t head_size,
                              const Gpu& gpu);

/// Which instantiation of the memory-efficient backward kernel runs (mem_eff_attention/kernels/generate_kernels.py).
struct EfficientKernel {
  int block_queries = 64;               // kBlockSizeI
  int block_keys = 64;                  // kBlockSizeJ
  bool gradients_in_registers = false;  // kOutputInRF: of key and value
  bool computes_delta = false;          // kKernelComputesDelta
};
EfficientKernel efficient_backward_kernel(DType dtype, std::int64_t head_size, std::int64_t value_size, bool dropout,
                                          const Gpu& gpu);

/// Params::workspace_size of kernel_backward.h: tiles in which blocks of keys add up their gradients.
std::int64_t efficient_workspace_bytes(const EfficientKernel& kernel, std::int64_t batch_heads, std::int64_t queries,
                                       std::int64_t keys, std::int64_t head_size, std::int64_t value_size, DType dtype,
                                       const Gpu& gpu);

}  // namespace gpuplan
