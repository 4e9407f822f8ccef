// Pooling and resampling of images.
#include <array>

#include "validate/cuda/kernels/pooling.h"
#include "validate/cuda/kernels/resample.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

Window window_of(const Kernel& k) {
  const auto n = [&](Attribute a) { return static_cast<std::int32_t>(k.number(a, 1)); };
  return {n(Attribute::kernel_h),  n(Attribute::kernel_w),  n(Attribute::stride_h),   n(Attribute::stride_w),
          n(Attribute::padding_h), n(Attribute::padding_w), n(Attribute::dilation_h), n(Attribute::dilation_w)};
}

void run_max_pool(const Machine& m, const Kernel& k) {
  max_pool(m.launch, k.reads[0], k.writes[0], k.writes[1], window_of(k));
}

void run_max_pool_backward(const Machine& m, const Kernel& k) {
  max_pool_backward(m.launch, k.reads[0], k.reads[2], k.writes[0], window_of(k));
}

void run_average(const Machine& m, const Kernel& k) { adaptive_average_pool(m.launch, k.reads[0], k.writes[0]); }

void run_average_backward(const Machine& m, const Kernel& k) {
  adaptive_average_pool_backward(m.launch, k.reads[0], k.writes[0]);
}

std::string refuse_windows(const Kernel& k) {
  return !k.has(Attribute::kernel_h) ? "the plan does not say over which windows" : "";
}

Averaging averaging_of(const Kernel& k) {
  Averaging a;
  a.window = window_of(k);
  a.counts_padding = k.number(Attribute::count_include_pad) != 0;
  a.divisor = static_cast<std::int32_t>(k.number(Attribute::divisor_override));
  return a;
}

void run_average_windows(const Machine& m, const Kernel& k) {
  average_pool(m.launch, k.reads[0], k.writes[0], averaging_of(k));
}

void run_average_windows_backward(const Machine& m, const Kernel& k) {
  average_pool_backward(m.launch, k.reads[0], k.writes[0], averaging_of(k));
}

template <bool bilinear>
Resampling resampling_of(const Kernel& k) {
  return {k.number(Attribute::step_h), k.number(Attribute::step_w), bilinear, k.number(Attribute::align_corners) != 0};
}

template <bool bilinear>
void run_resample(const Machine& m, const Kernel& k) {
  resample(m.launch, k.reads[0], k.writes[0], resampling_of<bilinear>(k));
}

template <bool bilinear>
void run_resample_backward(const Machine& m, const Kernel& k) {
  resample_backward(m.launch, k.reads[0], k.writes[0], resampling_of<bilinear>(k));
}

std::string refuse_resample(const Kernel& k) {
  return !k.has(Attribute::step_h) ? "the plan does not say how sizes compare" : "";
}

constexpr std::array kOperations{
    Operation{Operator::max_pool2d_with_indices, run_max_pool, refuse_windows},
    Operation{Operator::max_pool2d_with_indices_backward, run_max_pool_backward, refuse_windows},
    Operation{Operator::avg_pool2d, run_average_windows, refuse_windows},
    Operation{Operator::avg_pool2d_backward, run_average_windows_backward, refuse_windows},
    Operation{Operator::upsample_nearest2d, run_resample<false>, refuse_resample},
    Operation{Operator::upsample_nearest2d_backward, run_resample_backward<false>, refuse_resample},
    Operation{Operator::upsample_bilinear2d, run_resample<true>, refuse_resample},
    Operation{Operator::upsample_bilinear2d_backward, run_resample_backward<true>, refuse_resample},
    Operation{Operator::_adaptive_avg_pool2d, run_average},
    Operation{Operator::_adaptive_avg_pool2d_backward, run_average_backward}};
static_assert(is_whole_family(kOperations, OperatorFamily::pooling));

}  // namespace

std::span<const Operation> pooling_operations() { return kOperations; }

}  // namespace gpuplan::cuda
