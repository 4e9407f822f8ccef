// Measures how long copies, matrix products and convolutions of many sizes take on a device, one after another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "estimator/device/gpu.h"
#include "validate/executor/device.h"

namespace gpuplan {

struct CalibrationOptions {
  bool quick = false;         // fewer sizes, and none that takes long
  double budget_seconds = 0;  // of the device's time; what is left then is not measured. 0: 120, or 15 when quick
  bool dry = false;           // runs every operation once and takes no time
};

/// Called before each measurement with what is measured and how many there are; those that are left out count too.
using CalibrationProgress = std::function<void(std::string_view what, int done, int total)>;

struct Calibration {
  Gpu gpu;                      // with Gpu::measured, but for its date and `with`, and with context_bytes
  std::int64_t operations = 0;  // that the device was given
  int measured = 0, without_room = 0, too_long = 0;  // tables' rows; those left out for want of memory and of time
};

/// `gpu`: what is known of the device. Throws what the device throws; Error (environment) where the device's clock
/// stands still or its memory is full.
Calibration calibrate(Device& device, const Gpu& gpu, const CalibrationOptions& options,
                      const CalibrationProgress& progress = {});

/// The entry of `catalog` with the device's name, or one made of what the device says of itself.
Gpu describe_gpu(Device& device, const std::vector<Gpu>& catalog);

/// What was measured, a line a table with the highest rate and where it was reached.
std::string calibration_text(const Calibration& calibration, bool unicode);

}  // namespace gpuplan
