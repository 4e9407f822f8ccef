// What the GPU has while FSDP1 shares a model that is on the host: each module comes to the GPU when it is wrapped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/flat_parameters.h"

namespace gpuplan {

/// Parameters get memory in the order in which modules are wrapped, the root last, and of each by their depth
/// (_init_utils.py, _move_module_to_device); then buffers.
void order_by_depth(Graph& graph, std::span<const FsdpUnit> units);

/// What the policy's buffer_dtype casts in the first forward; the graph has it as it is then.
std::vector<TensorId> cast_buffers(const Graph& graph, const Strategy& strategy);

/// A buffer as the model is made with it, which goes when it is cast. `slot`: the writer's.
struct FlatBuffer {
  std::int32_t slot;
  std::int64_t elements;
};

/// Parameters are there whole, as they are stored, and go when the rank has its part. Returns the buffers that the
/// policy casts.
std::vector<FlatBuffer> write_flat_construction(const Graph& graph, std::span<const FsdpUnit> units,
                                                std::span<const FlatParameter> flat, const Strategy& strategy,
                                                CollectiveWriter& writer);

}  // namespace gpuplan
