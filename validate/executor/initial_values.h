// What weights, buffers and inputs hold before the first step: of the seed alone, so that every device begins alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/calls.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// The tensor's storage, in its own type and layout. Weights are uniform within 1 / sqrt(fan in), those of one
/// dimension around 1 (biases around 0) within 0.1; buffers as Graph::initial_values says; inputs uniform within 1,
/// integers below what they index.
std::vector<std::byte> initial_values(const Graph& graph, const Schedule& schedule, const Calls& calls, TensorId tensor,
                                      std::uint64_t seed);

}  // namespace gpuplan
