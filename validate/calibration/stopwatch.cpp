#include "validate/calibration/stopwatch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

constexpr int kSamples = 7, kWarmUps = 2, kMostRuns = 1000;
// Events have a resolution of about half a microsecond (cudaEventElapsedTime): 0.05 % of a sample.
constexpr double kSampleMilliseconds = 1, kWarmUpMilliseconds = 500;

}  // namespace

double Stopwatch::sample(const std::function<void()>& operation, int runs) {
  const int from = device_.mark();
  for (int i = 0; i < runs; ++i) operation();
  const int to = device_.mark();
  device_.synchronize();
  const double taken = device_.milliseconds(from, to);
  device_.forget_marks();
  milliseconds_ += taken;
  operations_ += runs;
  return taken / runs;
}

void Stopwatch::warm_up(const std::function<void()>& operation) {
  if (dry_) return;
  const double before = milliseconds_;
  for (int i = 0; i < kMostRuns && milliseconds_ < before + kWarmUpMilliseconds; ++i) sample(operation, 10);
  milliseconds_ = before;
}

std::int64_t Stopwatch::nanoseconds(const std::function<void()>& operation) {
  if (dry_) {
    operation();
    device_.synchronize();
    ++operations_;
    return 1;
  }
  double once = 0;
  for (int i = 0; i < kWarmUps; ++i) once = sample(operation, 1);
  const double runs = once > 0 ? std::clamp(kSampleMilliseconds / once, 1.0, double{kMostRuns}) : kMostRuns;
  std::array<double, kSamples> samples{};
  for (double& s : samples) s = sample(operation, static_cast<int>(runs));
  std::ranges::sort(samples);
  const double median = samples[kSamples / 2];
  if (!(median > 0))
    throw Error("the device's clock does not advance, so nothing can be measured", ErrorKind::environment);
  return std::max<std::int64_t>(std::llround(median * 1e6), 1);
}

}  // namespace gpuplan
