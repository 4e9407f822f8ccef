#include "estimator/distributed/rank_states.h"

#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

// Of ZeRO-2 and 3, frozen parameters in parts only where the others are.
StateBytes in_flat_parts(const Graph& graph, const RunConfig& run, std::int64_t optimizer_bytes_of_element,
                         const Strategy& strategy) {
  std::vector<Shape> shapes, frozen;
  for (const ParameterTensor& p : graph.parameters)
    (p.trainable ? shapes : frozen).push_back(graph.tensor(p.tensor).shape);
  const std::int64_t size = size_of(run.precision);
  StateBytes states = state_bytes(shapes, {size, size, optimizer_bytes_of_element}, strategy);
  states.parameters = checked_add(states.parameters, state_bytes(frozen, {size, 0, 0}, strategy).parameters);
  return states;
}

}  // namespace

StateBytes rank_states(const Graph& graph, const RunConfig& run, std::int64_t optimizer_bytes,
                       const Strategy& strategy) {
  std::vector<Shape> trained;
  std::int64_t elements = 0;
  for (const ParameterTensor& p : graph.parameters) {
    if (!p.trainable) continue;
    trained.push_back(graph.tensor(p.tensor).shape);
    elements = checked_add(elements, trained.back().elements());
  }
  const std::int64_t each = elements == 0 ? 0 : optimizer_bytes / elements;
  if (strategy.is_deepspeed()) return in_flat_parts(graph, run, each, strategy);
  StateBytes states;
  for (const ParameterTensor& p : graph.parameters) {
    const Shape shape = cut_shape(graph, p);
    const std::int64_t kept = strategy.data == DataParallel::fsdp
                                  ? padded_shard_elements(shape, shard_group(graph, p, strategy).ranks)
                                  : shape.elements();
    const std::int64_t bytes = checked_mul(kept, size_of(stored_type(graph, p, strategy, run)));
    states.parameters = checked_add(states.parameters, bytes);
    if (p.trainable) states.gradients = checked_add(states.gradients, bytes);
  }
  states.optimizer_state = state_bytes(trained, {0, 0, each}, strategy).optimizer_state;
  return states;
}

}  // namespace gpuplan
