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
  hardsigmoid,
  hardswish,
  square,
  abs,
  sgn,
  log,
  pow,         // {exponent}
  hardtanh,    // {min, max}
  leaky_relu,  // {slope}
  elu,         // {alpha}
  // of a and b
  add,
  sub,
  rsub,  // b - a
  mul,
  div,
  eq,
  ne,
  lt,
  le,
  ge,
  gt,
  bit_and,
  minimum,
  floor_divide,
  masked_fill,          // b ? {value} : a
  dropout_backward,     // a times (b ? {scale} : 0)
  threshold_backward,   // result, then gradient
  leaky_relu_backward,  // input or result, then gradient
  hardtanh_backward,    // gradient, then input; so are the next
  gelu_backward,
  gelu_tanh_backward,
  silu_backward,
  hardsigmoid_backward,
  hardswish_backward,
  tanh_backward,  // gradient, then result
  sigmoid_backward,
  elu_backward,         // gradient, then input {alpha}
  elu_result_backward,  // gradient, then result {alpha}
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
