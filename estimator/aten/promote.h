// The type of a result of two types (c10/core/ScalarType.h, promoteTypes).
#pragma once

#include "estimator/base/dtype.h"

namespace gpuplan::aten {

constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a)) {
    if (a == DType::fp64 || b == DType::fp64) return DType::fp64;
    return DType::fp32;  // fp16 and bf16 meet in fp32 too
  }
  for (const DType t : {DType::int64, DType::int32})
    if (a == t || b == t) return t;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  return DType::int32;  // int16, which nothing here has
}

}  // namespace gpuplan::aten
