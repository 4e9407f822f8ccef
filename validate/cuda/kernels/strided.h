// Tensors of one shape executed together: dimensions of size 1 dropped, those that follow each other in all of them
// merged, the fastest first. Host code without CUDA.
#pragma once

#include <cstdint>

#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

constexpr int kMostOperands = 4;

struct Walked {
  int rank = 0;  // 0: one element
  std::int64_t sizes[KernelTensor::kMaxRank] = {};
  std::int64_t strides[kMostOperands][KernelTensor::kMaxRank] = {};  // by operand
  std::int64_t elements = 1;
};

/// `strides[k]` are operand k's for the dimensions in `sizes`. The first operand's strides decide the order.
Walked walked(int rank, const std::int64_t* sizes, const std::int64_t* const* strides, int operands);

std::int64_t elements_of(const KernelTensor& t);
/// Strides of `t` broadcast to `to`'s sizes, right-aligned.
void broadcast_strides(const KernelTensor& t, const KernelTensor& to, std::int64_t* strides);
/// Whether its elements fill a run of memory, in whatever order of its dimensions.
bool is_dense(const KernelTensor& t);
/// The same sizes and, where they matter, strides.
bool same_layout(const KernelTensor& a, const KernelTensor& b);
/// Row-major without gaps.
bool is_row_major(const KernelTensor& t);

}  // namespace gpuplan::cuda
