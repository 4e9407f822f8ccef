#include "estimator/time/operation_time.h"

#include <algorithm>

#include "estimator/base/dtype.h"
#include "estimator/device/arithmetic.h"
#include "estimator/time/measured_time.h"
#include "estimator/time/product_time.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kTensorCoreChannels = 8;  // cuDNN's tensor core kernels take as many input channels at a time

double backward_share(const OpaqueKernel& s, const TimeModel& model) {
  return s.recompute_macs > 0 ? model.attention_backward : model.attention_forward;
}

struct ComputeSeconds {
  const Work& work;
  const Processor& on;

  double operator()(const Gemm& g) const {
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    const ProductShape shape{real(g.batch), real(g.m), real(g.n), real(g.k)};
    ProductRate rate = product_rate(work, work.tf32, on);
    if (rate.tensor_cores && !work.aligned && work.weights == WeightFormat::as_computed)
      rate.flops = std::min(rate.flops, rate_of_units(on.gpu, on.model.unaligned_multiply_adds));
    const double seconds = product_seconds(shape, units(rate), 1, on.model);
    return seconds * measured_share(g, work.tf32, on);
  }
  double operator()(const Convolution& c) const {
    if (c.groups > 1 && c.groups == c.c) return depthwise();
    if (c.im2col) return sample_by_sample(c);
    ProductRate rate = product_rate(c.dtype, true, on);
    if (is_half(c.dtype) && c.c / c.groups % kTensorCoreChannels != 0) rate = {on.peaks.fp32, false};
    double seconds = with(rate, c);
    // cudnn.allow_tf32 allows: cuDNN's heuristics take the kernel in fp32 where that is the faster one.
    if (c.dtype == DType::fp32 && rate.tensor_cores) seconds = std::min(seconds, with({on.peaks.fp32, false}, c));
    return seconds * measured_share(c, on);
  }
  double with(const ProductRate& rate, const Convolution& c) const {
    const bool winograd =
        c.dtype == DType::fp32 && c.r == 3 && c.s == 3 && c.stride_h == 1 && c.stride_w == 1 && !rate.tensor_cores;
    const double seconds = product_seconds(implicit_product(c), units(rate), share(c.pass), on.model);
    const bool converts = rate.tensor_cores && !c.channels_last;
    const double converting =
        converts ? on.model.layout_passes * static_cast<double>(work.bytes) / achieved_bandwidth(work.bytes, on) : 0;
    return seconds / (winograd ? on.model.winograd : 1) + converting;
  }
  double operator()(const OpaqueKernel& s) const {
    const ProductRate rate = product_rate(work.dtype, work.tf32, on);
    return flops(rate.flops * backward_share(s, on.model));
  }
  double operator()(const Recurrence&) const {
    return flops(product_rate(work.dtype, true, on).flops * on.model.recurrence);
  }
  template <class Other>
  double operator()(const Other&) const {
    return static_cast<double>(work.plain_flops) / on.peaks.plain;
  }

 private:
  double flops(double rate) const { return static_cast<double>(work.product_flops) / rate; }
  double depthwise() const {
    return static_cast<double>(work.bytes) / (on.achieved_bytes() * on.model.depthwise_bandwidth) +
           flops(on.peaks.fp32 * on.model.depthwise_compute);
  }
  // slow_conv2d (aten/src/ATen/native/cuda/ConvolutionMM2d.cu): of every sample a product, and where the filter has
  // more than one tap or moves, its columns, which one kernel writes and another reads.
  double sample_by_sample(const Convolution& c) const {
    const bool columns = c.r * c.s > 1 || c.stride_h * c.stride_w > 1 || c.pad_h + c.pad_w > 0;
    const std::int64_t bytes = c.c * c.r * c.s * c.p * c.q * size_of(c.dtype);
    Convolution sample = c;
    sample.n = 1;
    const double product = product_seconds(implicit_product(sample), units({on.peaks.fp32, false}), 1, on.model);
    const double moved = columns ? 2 * static_cast<double>(bytes) / achieved_bandwidth(bytes, on) : 0;
    const auto samples = static_cast<double>(c.n);
    return samples * (product + moved) + (samples * (columns ? 2 : 1) - 1) * kernel_seconds(on);
  }
  double share(ConvolutionPass pass) const {
    switch (pass) {
      case ConvolutionPass::forward: return on.model.convolution_forward;
      case ConvolutionPass::backward_data: return on.model.convolution_data;
      case ConvolutionPass::backward_filter: break;
    }
    return on.model.convolution_filter;
  }
  ProductUnits units(const ProductRate& rate) const {
    return {on.gpu.sm_count, rate.flops, on.achieved_bytes(), rate.tensor_cores};
  }
};

double traffic(const Primitive& what, const Work& work, const TimeModel& model) {
  const auto bytes = static_cast<double>(work.bytes);
  const auto* norm = std::get_if<BatchNorm>(&what);
  return norm != nullptr && norm->training ? bytes * model.batch_norm_passes : bytes;
}

}  // namespace

ProductRate product_rate(DType type, bool tf32, const Processor& on) {
  const Peaks& peaks = on.peaks;
  const auto of = [&](double rate) { return ProductRate{rate, rate > peaks.fp32}; };
  switch (type) {
    case DType::fp64: return {peaks.fp64, false};
    case DType::fp16: return of(peaks.half);
    case DType::bf16: return of(on.gpu.capability_major >= 8 ? peaks.half : peaks.fp32);
    default: return of(tf32 ? peaks.tf32 : peaks.fp32);
  }
}

std::optional<double> stored_rate(WeightFormat format, const Gpu& gpu) {
  const bool int8 = format == WeightFormat::int8;
  if (!gpu.datasheet || !on_tensor_cores(gpu, int8 ? Arithmetic::int8 : Arithmetic::fp8)) return std::nullopt;
  const std::optional<double>& teraflops = gpu.datasheet->rate(int8 ? Rate::int8 : Rate::fp8);
  return teraflops ? std::optional(*teraflops * 1e12) : std::nullopt;
}

ProductRate product_rate(const Work& work, bool tf32, const Processor& on) {
  const bool stored = work.weights == WeightFormat::int8 || work.weights == WeightFormat::fp8;
  const std::optional<double> rate = stored ? stored_rate(work.weights, on.gpu) : std::nullopt;
  return rate ? ProductRate{*rate, true} : product_rate(work.dtype, tf32, on);
}

OperationTime operation_time(const Primitive& what, const Work& work, const Processor& on) {
  OperationTime time;
  time.compute_seconds = on.model.slower * std::visit(ComputeSeconds{work, on}, what);
  time.memory_seconds = traffic(what, work, on.model) / achieved_bandwidth(work.bytes, on);
  time.seconds = std::max(time.compute_seconds, time.memory_seconds) +
                 static_cast<double>(cost(what).kernels) * kernel_seconds(on);
  return time;
}

}  // namespace gpuplan
