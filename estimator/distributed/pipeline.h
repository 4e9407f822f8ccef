// Pipeline parallelism: micro-batches in flight, and the time of a step. Schedules as in
// arXiv:2104.04473, section 2.2.
#pragma once

#include <cstdint>
#include <span>

namespace gpuplan {

/// Micro-batches whose activations stage `stage` holds at its peak under 1F1B: it runs ahead of the last stage by so
/// many as there are stages behind it. With GPipe all of them.
std::int64_t micro_batches_in_flight(std::int64_t stage, std::int64_t stages, std::int64_t micro_batches);

/// A step of 1F1B: the first micro-batch passes every stage, and then the slowest one sets the pace.
double pipeline_seconds(std::span<const double> stage_seconds, std::int64_t micro_batches);

}  // namespace gpuplan
