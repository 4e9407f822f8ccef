// Appends steps to a Schedule. Used by the forward and by the backward half of its making.
#pragma once

#include <string_view>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/run_config.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

class StepWriter {
 public:
  StepWriter(Schedule& schedule, const RunConfig& run, const Gpu& gpu) : schedule_(schedule), run_(run), gpu_(gpu) {}

  /// Begins a step. `what` must outlive the schedule; null for a marker.
  void begin(std::string_view name, LayerId layer, Phase phase, const Primitive* what);
  void read(BufferId buffer) {
    schedule_.reads.push_back(buffer);
    schedule_.steps.back().reads.end = static_cast<std::int32_t>(schedule_.reads.size());
  }
  void allocate(BufferId buffer) {
    schedule_.allocated.push_back(buffer);
    schedule_.steps.back().allocates.end = static_cast<std::int32_t>(schedule_.allocated.size());
  }
  BufferId new_buffer(std::int64_t bytes, Category category, LayerId layer);

  Schedule& schedule() { return schedule_; }

 private:
  Schedule& schedule_;
  const RunConfig& run_;
  const Gpu& gpu_;
};

}  // namespace gpuplan
