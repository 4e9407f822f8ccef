// What a sweep keeps of each of its points.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuplan {

/// What a sweep keeps of a plan.
struct SweepFigures {
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0;  // at the peak; device: all that is needed
  std::int64_t usable_bytes = 0;                                           // of the GPU; 0: no limit is known
  std::int64_t limit_bytes = 0;                                            // the same without the margin
  bool fits = true, runs = true;                                           // Verdict; both true without a limit
  std::int64_t retries = 0;  // where it does not fit: PyTorch gives its cache back so often in three steps
  std::string phase, where;  // of the peak; where: the layer, or operation
  std::optional<std::int64_t> step_flops;    // of matrix products and convolutions; none of steps that were learned
  std::optional<double> step_seconds;        // where a GPU is named and its rates are known
  std::optional<double> samples_per_second;  // of the whole batch, of all GPUs
  // Of a rank of several GPUs, whose bytes, FLOPs and time are all of the above:
  std::optional<std::int64_t> sent_bytes;       // by it, a step
  std::optional<double> communication_seconds;  // of step_seconds: copies, and what nothing hides
  std::optional<double> scaling_efficiency;     // of so many GPUs' throughput, the share that is left
  bool operator==(const SweepFigures&) const = default;
};

/// What a search asked, of which rows are a part.
struct AskedSearch {
  std::string version, command;      // which tell it from others
  std::string batch, gpus, network;  // flags that its answer names; gpus: where it is one number
  bool operator==(const AskedSearch&) const = default;
};

struct SweepRow {
  std::int64_t point = 0;           // its number in the whole sweep, whatever the shard
  std::vector<std::string> values;  // of the swept flags
  std::optional<SweepFigures> figures;
  std::string error;  // where there are none: why it cannot be run
};

}  // namespace gpuplan
