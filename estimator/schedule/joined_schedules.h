// The schedules of several graphs as those of one (graph/joined_graph.h), such as those of the stages that a pipeline's
// rank has: all forwards, the loss, and the backwards from the last one to the first.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/micro_batch_schedules.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

/// The steps of each phase, which follow each other.
using PhaseRanges = std::array<Range, kPhases>;
PhaseRanges phase_ranges(const Schedule& schedule);

/// Where what a part has is in the whole.
struct JoinedPart {
  BufferId buffer(BufferId b) const {
    if (b == kNone) return kNone;
    return b < own_buffers ? b + graph_buffers : b - own_buffers + more_buffers;
  }
  std::int32_t parameters = 0;
  std::int32_t own_buffers = 0;                          // of its graph
  std::int32_t graph_buffers = 0;                        // where these begin
  std::int32_t more_buffers = 0;                         // and those of its schedules
  std::vector<std::array<std::int32_t, kPhases>> steps;  // of each schedule, by phase: what is added to a step's number
};

struct JoinedSchedules {
  MicroBatchSchedules schedules;
  std::vector<JoinedPart> parts;
};

struct PartToJoin {
  const Graph* graph;
  const MicroBatchSchedules* schedules;
};
/// As many schedules as each part has, in their order. Their operations are those of the parts, which must outlive the
/// result.
JoinedSchedules joined_schedules(std::span<const PartToJoin> parts);

}  // namespace gpuplan
