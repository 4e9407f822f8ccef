// out[i] = op(a[i], b[i], c[i]), operands broadcast to the result.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

enum class PointwiseOp : std::uint8_t {
  // of a
  identity,
  neg,
  exp,
  sin,
  cos,
  tanh,
  relu,
  silu,
  sigmoid,
  rsqrt,
  gelu,
  gelu_tanh,
  square,
  pow,  // pow: parameter 0
  hardtanh,
  leaky_relu,
  elu,  // {min, max}, {slope}, {alpha}
  // of a and b
  add,
  sub,
  mul,
  div,
  eq,
  ne,
  le,
  gt,
  bit_and,
  masked_fill,         // b ? {value} : a
  dropout_backward,    // b ? a * {scale} : 0
  threshold_backward,  // a > 0 ? b : 0: result, then gradient
  hardtanh_backward,
  gelu_backward,
  gelu_tanh_backward,
  silu_backward,  // gradient, then input
  tanh_backward,
  sigmoid_backward,  // gradient, then result
  // of a, b and c
  where,
  count
};

/// Operands that an operation takes.
constexpr int arity(PointwiseOp op) { return op == PointwiseOp::where ? 3 : op >= PointwiseOp::add ? 2 : 1; }

/// A tensor, or a number that stands for one.
struct PointwiseOperand {
  KernelTensor tensor;
  bool is_number = false;
  double number = 0;
};

struct Pointwise {
  PointwiseOp op = PointwiseOp::identity;
  PointwiseOperand operands[3];
  KernelTensor out;
  double parameters[2] = {};
};

/// Computes in fp32, or in fp64 where an operand or the result is fp64 or an integer.
void pointwise(const LaunchContext& context, const Pointwise& what);

/// pointwise.cu's fast path, for operands that lie as the result does. False where there is none.
bool dense_pointwise(const LaunchContext& context, const Pointwise& what);

/// Casts, copies between any layouts, and fills.
void convert(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to);
void fill(const LaunchContext& context, const KernelTensor& to, double value);
/// first, first + 1, ...
void arange(const LaunchContext& context, const KernelTensor& to, double first);

}  // namespace gpuplan::cuda
