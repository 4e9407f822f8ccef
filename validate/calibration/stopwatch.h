// The time of an operation by the device's own clock: the median of several samples, each of as many runs one after
// another as take a millisecond, after runs that warm up.
#pragma once

#include <cstdint>
#include <functional>

#include "validate/executor/device.h"

namespace gpuplan {

class Stopwatch {
 public:
  /// dry: runs each operation once and says that it took a nanosecond.
  Stopwatch(Device& device, bool dry) : device_(device), dry_(dry) {}

  /// Nanoseconds from one operation to the next, 1 or more. Throws Error (environment) where the clock stands still.
  std::int64_t nanoseconds(const std::function<void()>& operation);
  /// Runs the operation for half a second, which is not counted: an idle device's clocks are low.
  void warm_up(const std::function<void()>& operation);
  /// What all measurements have taken of the device's time.
  double seconds_spent() const { return milliseconds_ / 1000; }
  std::int64_t operations() const { return operations_; }

 private:
  double sample(const std::function<void()>& operation, int runs);

  Device& device_;
  bool dry_;
  double milliseconds_ = 0;
  std::int64_t operations_ = 0;
};

}  // namespace gpuplan
