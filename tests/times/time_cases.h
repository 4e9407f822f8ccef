// Measured times of steps and kernels (tests/times), and what the time model says of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/operators/primitive.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

/// One row of tests/times/cnn_step_times.csv; of several with the same columns their geometric mean.
struct MeasuredStep {
  std::string gpu, model;
  RunConfig run;       // batch 12, without an optimizer
  double seconds = 0;  // of several runs their geometric mean
  double spread = 1;   // the slowest of them over the fastest
};
std::vector<MeasuredStep> measured_steps();
/// Copy, forward, loss and backward.
double predicted_seconds(const MeasuredStep& step, const TimeModel& model);

/// One row of tests/times/cnn_step_times_torch7.csv: batch 16, forward and backward.
std::vector<MeasuredStep> torch7_steps();
/// Of the GPU alone: Lua's calls are not PyTorch's, and at that batch nobody waits for them.
double predicted_seconds_of_torch7(const MeasuredStep& step, TimeModel model);

/// One row of tests/times/nvidia_resnet50.csv, and the whole step; batches come to the GPU on a stream of their own.
std::vector<MeasuredStep> nvidia_steps();
double predicted_seconds_of_nvidia(const MeasuredStep& step, const TimeModel& model);

/// One row of tests/times/unaligned.csv: two products of about the same size.
struct MeasuredPair {
  std::string gpu;
  Gemm unaligned, aligned;
  double share = 1;  // of the aligned one's FLOP/s that the other one reached
};
std::vector<MeasuredPair> unaligned_pairs();
double predicted_share(const MeasuredPair& pair, const TimeModel& model);

/// One row of tests/times/kernels.csv, without those that store in fp16 and compute in fp32.
struct MeasuredKernel {
  std::string gpu;
  Primitive what;
  double seconds = 0;
};
std::vector<MeasuredKernel> measured_kernels();
double predicted_seconds(const MeasuredKernel& kernel, const TimeModel& model);

/// Of the absolute logarithms of predicted / measured.
struct LogErrors {
  double median = 0, worst_of_90_percent = 0, bias = 0, mean = 0;
  double within_1_6 = 0;  // share of them
};
LogErrors log_errors(const std::vector<double>& predicted_over_measured);

/// Kendall's tau of two orders: 1 where every pair is in the same order in both.
double kendall_tau(const std::vector<double>& a, const std::vector<double>& b);

/// Pairs of steps in both orders.
struct PairsInOrder {
  int right = 0, all = 0;
  double tau() const { return all > 0 ? 2.0 * right / all - 1 : 1; }
};
/// Of the pairs that `counts(i, j)` says yes to.
PairsInOrder pairs_in_order(const std::vector<double>& a, const std::vector<double>& b,
                            const std::function<bool(std::size_t i, std::size_t j)>& counts);

/// The GPU of configs/gpus, or one that only these tables have.
const Gpu& measured_gpu(const std::string& name);

}  // namespace gpuplan
