#include "validate/calibration/bench.h"

#include <algorithm>
#include <utility>

namespace gpuplan {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// Two operands of 16384 x 16384 in fp32, and a result of them with a workspace.
std::int64_t most_bytes(Device& device, std::int64_t most) {
  const std::int64_t third = device.memory().free_bytes / 3;
  return std::max<std::int64_t>(std::min(most, third) / kMemoryPage * kMemoryPage, kLeastOperandBytes);
}

}  // namespace

Bench::Bench(Device& device, const CalibrationOptions& options, const CalibrationProgress& progress, int total)
    : device_(device),
      progress_(progress),
      stopwatch_(device, options.dry),
      budget_seconds_(options.budget_seconds > 0 ? options.budget_seconds
                      : options.quick            ? 15
                                                 : 120),
      longest_seconds_(options.quick ? 0.02 : 0.2),
      total_(total) {
  inputs_.emplace(device, most_bytes(device, 2 * kGiB));
  outputs_.emplace(device, most_bytes(device, 2 * kGiB));
}

void Bench::begin(std::string what) {
  table_ = std::move(what);
  highest_rate_ = 0;
}

std::optional<std::int64_t> Bench::time(double work, const std::function<void()>& operation) {
  if (progress_) progress_(table_, measured_ + without_room_ + too_long_, total_);
  if (!operation) {
    ++without_room_;
    return std::nullopt;
  }
  const bool foretold_long = highest_rate_ > 0 && work / highest_rate_ > longest_seconds_;
  if (foretold_long || stopwatch_.seconds_spent() > budget_seconds_) {
    ++too_long_;
    return std::nullopt;
  }
  const std::int64_t taken = stopwatch_.nanoseconds(operation);
  highest_rate_ = std::max(highest_rate_, work / (static_cast<double>(taken) * 1e-9));
  ++measured_;
  return taken;
}

void Bench::release_operands() {
  inputs_.reset();
  outputs_.reset();
}

void Bench::count_into(Calibration& calibration) const {
  calibration.operations = stopwatch_.operations();
  calibration.measured = measured_;
  calibration.without_room = without_room_;
  calibration.too_long = too_long_;
}

}  // namespace gpuplan
