// GPU time of one operation: the longer of its computation and its memory traffic, plus kernel overhead. Uses the GPU's
// own measurements (`gpuplan calibrate`) if there are any, else the time model.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/schedule/schedule.h"
#include "estimator/time/peaks.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

struct OperationTime {
  double seconds = 0;                              // of its kernels, one after another
  double compute_seconds = 0, memory_seconds = 0;  // the larger of them is in `seconds`
};

/// A product that was measured on the GPU, beside what the time model says of it.
struct MeasuredProduct {
  ProductType type = ProductType::fp32;
  std::optional<ConvolutionPass> pass;  // none: a matrix product
  bool channels_last = false;
  std::array<double, 3> log_sizes{};  // of the (implicit) product's m, n and k
  double log_ratio = 0;               // of the measured and the modelled time
};

/// What operations run on.
struct Processor {
  const Gpu& gpu;
  const TimeModel& model;
  Peaks peaks;                            // rated; peaks.known() must hold
  std::vector<MeasuredProduct> products;  // of Gpu::measured
  std::vector<TimedBytes> copies;         // likewise, by size
  double achieved_bytes() const { return peaks.bytes * model.bandwidth; }
};
/// `gpu` and `model` must outlive it.
Processor make_processor(const Gpu& gpu, const TimeModel& model);

/// `work` is the operation's. The processor's peaks must be known.
OperationTime operation_time(const Primitive& what, const Work& work, const Processor& processor);

/// The rate of products of this type, and whether tensor cores compute them. fp32 convolutions use TF32 where there is
/// any (torch.backends.cudnn.allow_tf32 is true unless set), other products where `tf32` asks for it.
struct ProductRate {
  double flops = 0;
  bool tensor_cores = false;
};
ProductRate product_rate(DType type, bool tf32, const Processor& processor);
/// The same of a product by its work: int8 and fp8 have the dense peak of the GPU's datasheet.
ProductRate product_rate(const Work& work, bool tf32, const Processor& processor);
/// That peak, operations a second; nothing where it is not known, or not of tensor cores. `format`: int8 or fp8.
std::optional<double> stored_rate(WeightFormat format, const Gpu& gpu);

}  // namespace gpuplan
