// The arithmetic of the pointwise operations, as PyTorch's kernels write it (aten/src/ATen/native/cuda/Activation*.cu).
#pragma once

#include "validate/cuda/kernels/pointwise.h"

namespace gpuplan::cuda {

template <class C>
struct Gelu {
  static constexpr C kSqrtHalf = C(0.70710678118654752440);
  static constexpr C kInverseSqrt2Pi = C(0.39894228040143267794);
  static constexpr C kBeta = C(0.79788456080286535588);  // sqrt(2 / pi)
  static constexpr C kKappa = C(0.044715);

  static __device__ __forceinline__ C value(C x) { return x * C(0.5) * (C(1) + erf(x * kSqrtHalf)); }
  static __device__ __forceinline__ C slope(C x) {
    return C(0.5) * (C(1) + erf(x * kSqrtHalf)) + x * exp(C(-0.5) * x * x) * kInverseSqrt2Pi;
  }
  static __device__ __forceinline__ C tanh_value(C x) {
    return C(0.5) * x * (C(1) + tanh(kBeta * (x + kKappa * x * x * x)));
  }
  static __device__ __forceinline__ C tanh_slope(C x) {
    const C t = tanh(kBeta * (x + kKappa * x * x * x));
    return C(0.5) * (C(1) + t) + C(0.5) * x * (C(1) - t * t) * kBeta * (C(1) + C(3) * kKappa * x * x);
  }
};

template <class C>
__device__ __forceinline__ C hard_sigmoid(C x) {
  const C y = x + C(3);
  return (y < C(0) ? C(0) : y > C(6) ? C(6) : y) / C(6);  // a NaN stays one
}

template <class C>
__device__ __forceinline__ C apply(PointwiseOp op, C a, C b, C c, C p, C q) {
  switch (op) {
    case PointwiseOp::identity: return a;
    case PointwiseOp::neg: return -a;
    case PointwiseOp::exp: return exp(a);
    case PointwiseOp::sin: return sin(a);
    case PointwiseOp::cos: return cos(a);
    case PointwiseOp::tanh: return tanh(a);
    case PointwiseOp::relu: return a <= C(0) ? C(0) : a;  // a NaN stays one
    case PointwiseOp::silu: return a / (C(1) + exp(-a));
    case PointwiseOp::sigmoid: return C(1) / (C(1) + exp(-a));
    case PointwiseOp::rsqrt: return rsqrt(a);
    case PointwiseOp::gelu: return Gelu<C>::value(a);
    case PointwiseOp::gelu_tanh: return Gelu<C>::tanh_value(a);
    case PointwiseOp::hardsigmoid: return hard_sigmoid(a);
    case PointwiseOp::hardswish: return a * hard_sigmoid(a);
    case PointwiseOp::square: return a * a;
    case PointwiseOp::abs: return a < C(0) ? -a : a;
    case PointwiseOp::sgn: return a > C(0) ? C(1) : a < C(0) ? C(-1) : a;  // a NaN stays one
    case PointwiseOp::log: return log(a);
    case PointwiseOp::pow: return pow(a, p);
    case PointwiseOp::hardtanh: return a < p ? p : a > q ? q : a;
    case PointwiseOp::leaky_relu: return a > C(0) ? a : a * p;
    case PointwiseOp::elu: return a > C(0) ? a : p * expm1(a);
    case PointwiseOp::add: return a + b;
    case PointwiseOp::sub: return a - b;
    case PointwiseOp::rsub: return b - a;
    case PointwiseOp::mul: return a * b;
    case PointwiseOp::div: return a / b;
    case PointwiseOp::eq: return a == b ? C(1) : C(0);
    case PointwiseOp::ne: return a != b ? C(1) : C(0);
    case PointwiseOp::lt: return a < b ? C(1) : C(0);
    case PointwiseOp::ge: return a >= b ? C(1) : C(0);
    case PointwiseOp::le: return a <= b ? C(1) : C(0);
    case PointwiseOp::gt: return a > b ? C(1) : C(0);
    case PointwiseOp::bit_and: return static_cast<C>(static_cast<std::int64_t>(a) & static_cast<std::int64_t>(b));
    case PointwiseOp::minimum: return a < b || a != a ? a : b;
    case PointwiseOp::floor_divide: return floor(a / b);
    case PointwiseOp::masked_fill: return b != C(0) ? p : a;
    case PointwiseOp::dropout_backward: return a * (b != C(0) ? p : C(0));
    case PointwiseOp::threshold_backward: return a <= C(0) ? C(0) : b;
    case PointwiseOp::leaky_relu_backward: return a > C(0) ? b : b * p;
    case PointwiseOp::hardsigmoid_backward: return b > C(-3) && b < C(3) ? a / C(6) : C(0);
    case PointwiseOp::hardswish_backward: return b < C(-3) ? C(0) : b <= C(3) ? a * (b / C(3) + C(0.5)) : a;
    case PointwiseOp::hardtanh_backward: return b <= p || b >= q ? C(0) : a;
    case PointwiseOp::gelu_backward: return a * Gelu<C>::slope(b);
    case PointwiseOp::gelu_tanh_backward: return a * Gelu<C>::tanh_slope(b);
    case PointwiseOp::silu_backward: {
      const C s = C(1) / (C(1) + exp(-b));
      return a * s * (C(1) + b * (C(1) - s));
    }
    case PointwiseOp::tanh_backward: return a * (C(1) - b * b);
    case PointwiseOp::sigmoid_backward: return a * (C(1) - b) * b;
    case PointwiseOp::elu_backward: return b > C(0) ? a : a * p * exp(b);
    case PointwiseOp::elu_result_backward: return b > C(0) ? a : a * (b + p);
    case PointwiseOp::where: return a != C(0) ? b : c;
    case PointwiseOp::count: break;
  }
  return C(0);
}

}  // namespace gpuplan::cuda
