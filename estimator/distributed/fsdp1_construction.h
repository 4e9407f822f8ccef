// What the GPU has while FSDP1 shares a model that is on the host: each module comes to the GPU when it is wrapped.
#pragma once

#include <span>

#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/flat_parameters.h"

namespace gpuplan {

/// Parameters get memory in the order in which modules are wrapped, the root last, and of each by their depth
/// (_init_utils.py, _move_module_to_device); then buffers.
void order_by_depth(Graph& graph, std::span<const FsdpUnit> units);

/// Parameters are there whole, as they are stored, and go when the rank has its part.
void write_flat_construction(const Graph& graph, std::span<const FsdpUnit> units, std::span<const FlatParameter> flat,
                             const Strategy& strategy, CollectiveWriter& writer);

}  // namespace gpuplan
