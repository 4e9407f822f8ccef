// Pooling and resampling of images.
#include <array>

#include "validate/cuda/kernels/pooling.h"
#include "validate/cuda/kernels/resample.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

constexpr std::size_t kWindowNumbers = 8;

Window window_of(const Kernel& k) {
  const auto n = [&](std::size_t i) { return static_cast<std::int32_t>(number(k, i)); };
  return {n(0), n(1), n(2), n(3), n(4), n(5), n(6), n(7)};
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
  return k.numbers.size() < kWindowNumbers ? "the plan does not say over which windows" : "";
}

// {kernel h, w, stride h, w, padding h, w, whether padding counts, the divisor or 0}
Averaging averaging_of(const Kernel& k) {
  Averaging a;
  a.window = window_of(k);
  a.counts_padding = number(k, 6) != 0;
  a.divisor = static_cast<std::int32_t>(number(k, 7));
  return a;
}

void run_average_windows(const Machine& m, const Kernel& k) {
  average_pool(m.launch, k.reads[0], k.writes[0], averaging_of(k));
}

void run_average_windows_backward(const Machine& m, const Kernel& k) {
  average_pool_backward(m.launch, k.reads[0], k.writes[0], averaging_of(k));
}

// {step h, step w, whether corners lie on corners}
template <bool bilinear>
Resampling resampling_of(const Kernel& k) {
  return {number(k, 0), number(k, 1), bilinear, number(k, 2) != 0};
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
  return k.numbers.size() < 3 ? "the plan does not say how sizes compare" : "";
}

constexpr std::array kOperations{
    Operation{"max_pool2d_with_indices", run_max_pool, refuse_windows},
    Operation{"max_pool2d_with_indices_backward", run_max_pool_backward, refuse_windows},
    Operation{"avg_pool2d", run_average_windows, refuse_windows},
    Operation{"avg_pool2d_backward", run_average_windows_backward, refuse_windows},
    Operation{"upsample_nearest2d", run_resample<false>, refuse_resample},
    Operation{"upsample_nearest2d_backward", run_resample_backward<false>, refuse_resample},
    Operation{"upsample_bilinear2d", run_resample<true>, refuse_resample},
    Operation{"upsample_bilinear2d_backward", run_resample_backward<true>, refuse_resample},
    Operation{"_adaptive_avg_pool2d", run_average},
    Operation{"_adaptive_avg_pool2d_backward", run_average_backward}};

}  // namespace

std::span<const Operation> pooling_operations() { return kOperations; }

}  // namespace gpuplan::cuda
