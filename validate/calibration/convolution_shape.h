// A measured convolution as the operation that a device runs.
#pragma once

#include "estimator/device/measurements.h"
#include "estimator/operators/primitive.h"

namespace gpuplan {

/// fp32 for tf32: that is how it is computed, not what it is stored in.
constexpr DType stored_type(ProductType type) {
  switch (type) {
    case ProductType::fp16: return DType::fp16;
    case ProductType::bf16: return DType::bf16;
    default: return DType::fp32;
  }
}

inline Convolution shape_of(const TimedConvolution& t) {
  Convolution c;
  c.pass = t.pass;
  c.n = t.n, c.c = t.c, c.h = t.h, c.w = t.w, c.k = t.k, c.r = t.r, c.s = t.s;
  c.p = (t.h + 2 * t.padding - t.r) / t.stride + 1;
  c.q = (t.w + 2 * t.padding - t.s) / t.stride + 1;
  c.stride_h = c.stride_w = t.stride;
  c.pad_h = c.pad_w = t.padding;
  c.channels_last = t.layout == MemoryFormat::channels_last;
  c.dtype = stored_type(t.type);
  return c;
}

}  // namespace gpuplan
