// Which sizes are measured.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/device/measurements.h"

namespace gpuplan {

/// The types that the GPU multiplies by itself (estimator/device/arithmetic.h), in the order of ProductType.
std::vector<ProductType> product_types(const Gpu& gpu);

/// Bytes, growing: powers of four up to `most`.
std::vector<std::int64_t> copy_sizes(bool quick, std::int64_t most);
/// Squares of powers of two; the same with one more, which tensor cores read badly; a square weight of 4096 with few
/// and with many rows; a short inner dimension. Work grows.
std::vector<TimedGemm> gemm_sizes(ProductType type, bool quick);
/// ResNet's stages with filters of 3 and 1, and its stem, in small, medium and large batches, all passes (no gradient
/// of the stem's input). fp16 and bf16 in both layouts. Work grows within a layout and pass.
std::vector<TimedConvolution> convolution_sizes(ProductType type, bool quick);

/// Floating-point operations, 2 a multiply-add.
double flops(const TimedGemm& gemm);
double flops(const TimedConvolution& convolution);

}  // namespace gpuplan
