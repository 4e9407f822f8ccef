// Pipeline parallelism: who has which layers, how many micro-batches are alive, how long a step takes. Schedules as in
// arXiv:2104.04473, section 2.2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/graph/graph.h"

namespace gpuplan {

/// Micro-batches whose activations stage `stage` holds at its peak under 1F1B: it runs ahead of the last stage by so
/// many as there are stages behind it. With GPipe all of them.
std::int64_t micro_batches_in_flight(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches);

/// Idle time over computing time, with stages of equal length, `chunks` of them on each device (interleaved).
double bubble_fraction(std::int64_t stages, std::int64_t micro_batches, std::int64_t chunks = 1);

/// Consecutive layers in `stages` groups none of which is empty, so that the costliest is as cheap as can be. Throws
/// Error, of kind usage, where there are fewer layers than stages.
std::vector<Range> split_layers(std::span<const double> costs, std::int64_t stages);

/// A step of 1F1B: the first micro-batch passes every stage, and then the slowest one sets the pace.
double pipeline_seconds(std::span<const double> stage_seconds, std::int64_t micro_batches);

}  // namespace gpuplan
