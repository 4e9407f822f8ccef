// How far a result may be from the exact one. Kernels compute in fp32 (fp64 for fp64) and round once, when they store:
//   |result - exact| <= u |exact| + tiny + (depth c + between u) scale
// u, tiny: half a unit in the last place of the stored type, and of its smallest number; c: that of the type computed
// in, 2^-24 or 2^-53. A sum of n terms in any order is off by at most (n - 1) c times the sum of their magnitudes to
// first order (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 4.2); functions of CUDA's and C's
// libraries are within 2 units or a few ("CUDA C++ Programming Guide", mathematical functions). `depth` is the number
// of such steps behind one element, `scale` the largest magnitude among the results and operands.
#pragma once

#include <cmath>
#include <cstdint>

#include "estimator/base/dtype.h"

namespace gpuplan::comparison {

struct Rounding {
  double store = 0, tiny = 0, compute = 0;
};

inline Rounding rounding_of(DType stored) {
  switch (stored) {
    case DType::fp16: return {std::ldexp(1.0, -11), std::ldexp(1.0, -25), std::ldexp(1.0, -24)};
    case DType::bf16: return {std::ldexp(1.0, -8), std::ldexp(1.0, -134), std::ldexp(1.0, -24)};
    case DType::fp32: return {std::ldexp(1.0, -24), std::ldexp(1.0, -150), std::ldexp(1.0, -24)};
    case DType::fp64: return {std::ldexp(1.0, -53), 0, std::ldexp(1.0, -52)};  // the reference rounds as well
    default: return {};                                                        // integers and bool are exact
  }
}

/// The largest number of the type; beyond it, by rounding, is infinity.
inline double largest_of(DType stored) {
  switch (stored) {
    case DType::fp16: return 65504;
    case DType::bf16: return std::ldexp(255.0, 120);
    case DType::fp32: return std::ldexp(1.0 - std::ldexp(1.0, -24), 128);
    default: return HUGE_VAL;
  }
}

struct Steps {
  double depth = 0, between = 0, scale = 0;
};

/// The difference in units of what is allowed: above 1 is too far.
inline double excess(double result, double exact, DType stored, const Steps& steps) {
  if (std::isnan(result) || std::isnan(exact)) return std::isnan(result) && std::isnan(exact) ? 0 : HUGE_VAL;
  if (result == exact) return 0;
  const Rounding r = rounding_of(stored);
  const double allowed =
      r.store * std::abs(exact) + r.tiny + (steps.depth * r.compute + steps.between * r.store) * steps.scale;
  if (std::isinf(result)) return std::abs(exact) + allowed >= largest_of(stored) && result * exact > 0 ? 0 : HUGE_VAL;
  if (std::isinf(exact)) return HUGE_VAL;
  return std::abs(result - exact) / allowed;
}

}  // namespace gpuplan::comparison
