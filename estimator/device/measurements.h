// How long single operations took on one GPU, as `gpuplan calibrate` measures them. Times, not rates or efficiencies:
// those follow from the sizes. estimator/device/read_gpu.h has the form in a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/strides.h"
#include "estimator/device/convolution_pass.h"

namespace gpuplan {

/// What products are computed in; tf32 reads and writes fp32.
enum class ProductType : std::uint8_t { fp32, tf32, fp16, bf16 };

/// The time for so many bytes.
struct TimedBytes {
  std::int64_t bytes = 0, nanoseconds = 0;
  bool operator==(const TimedBytes&) const = default;
};

/// out[m, n] = a[m, k] b[k, n] as nn.Linear's forward: b is the transposition of a row-major weight [n, k].
struct TimedGemm {
  ProductType type = ProductType::fp32;
  std::int64_t m = 0, n = 0, k = 0, nanoseconds = 0;
  bool operator==(const TimedGemm&) const = default;
};

/// One pass of a convolution of images [n, c, h, w] with filters [k, c, r, s] in one group.
struct TimedConvolution {
  ProductType type = ProductType::fp32;
  MemoryFormat layout = MemoryFormat::contiguous;
  ConvolutionPass pass = ConvolutionPass::forward;
  std::int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 0, s = 0, stride = 1, padding = 0, nanoseconds = 0;
  bool operator==(const TimedConvolution&) const = default;
};

struct Measurements {
  std::string date;              // "2026-11-21"
  std::string with;              // versions of the program, the driver and the libraries
  std::int64_t launch_ns = 0;    // from one small kernel to the next when they are launched one after another
  std::vector<TimedBytes> copy;  // within the device's memory: so many bytes read, as many written
  std::vector<TimedBytes> to_device_pageable, to_device_pinned, to_host_pageable, to_host_pinned;
  std::vector<TimedGemm> gemm;
  std::vector<TimedConvolution> convolution;
  bool operator==(const Measurements&) const = default;
};

}  // namespace gpuplan
