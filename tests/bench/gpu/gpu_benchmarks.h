// Benchmarks of what runs on a GPU. Times are the GPU's own, by events: an iteration is one operation of many that run
// one after another.
#pragma once

#include "validate/executor/device.h"

namespace gpuplan {

struct BenchmarkedGpu {
  Device& device;
  bool computes = true;  // false under `gpuplan shadow`: each operation runs, and no time is taken
  int failures = 0;      // operations that the device refused
};

/// bytes/s and FLOP/s of single operations by size and type.
void register_kernels(BenchmarkedGpu& gpu);
/// Whole training steps of the zoo's models: a sample is an item.
void register_steps(BenchmarkedGpu& gpu);

constexpr const char* kTimesNeedAGpu = "accepted; times need a GPU";

}  // namespace gpuplan
