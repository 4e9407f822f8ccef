// A tensor as a kernel sees it. Plain data, for .cu files too.
#pragma once

#include <cstdint>

#include "estimator/base/dtype.h"

namespace gpuplan {

/// A tensor in a device's memory. data is null for an optional argument that was not given. Sizes and strides in
/// elements, as PyTorch's; a stride may be 0.
struct KernelTensor {
  static constexpr int kMaxRank = 8;
  void* data = nullptr;
  DType dtype = DType::fp32;
  std::int32_t rank = 0;
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};
};

}  // namespace gpuplan
