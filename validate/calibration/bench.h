// One measurement after another, within the device's memory and a budget of its time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "validate/calibration/calibration.h"
#include "validate/calibration/operands.h"
#include "validate/calibration/stopwatch.h"

namespace gpuplan {

class Bench {
 public:
  Bench(Device& device, const CalibrationOptions& options, const CalibrationProgress& progress, int total);

  Operands& inputs() { return *inputs_; }
  Operands& outputs() { return *outputs_; }
  Device& device() { return device_; }

  void warm_up(const std::function<void()>& operation) { stopwatch_.warm_up(operation); }
  /// A table begins: from here on times are foretold by its own rates.
  void begin(std::string what);
  /// The time of an operation of so much work (FLOP or bytes); nothing where it would take too long or the budget is
  /// spent. `operation` may be empty: there was no room for its operands.
  std::optional<std::int64_t> time(double work, const std::function<void()>& operation);

  /// Operands go back to the device; nothing can be measured afterwards.
  void release_operands();
  /// Counts what was measured and what was left out.
  void count_into(Calibration& calibration) const;

 private:
  Device& device_;
  CalibrationProgress progress_;
  Stopwatch stopwatch_;
  std::optional<Operands> inputs_, outputs_;
  double budget_seconds_, longest_seconds_;
  std::string table_;
  double highest_rate_ = 0;  // work a second
  int total_, measured_ = 0, without_room_ = 0, too_long_ = 0;
};

}  // namespace gpuplan
