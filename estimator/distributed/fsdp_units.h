// The modules that fully_shard is called on, as the operations of a graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/layer.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// One module with its parameters, gathered and freed together. Steps are of the schedule; the half-open ranges of
/// those that belong to it.
struct FsdpUnit {
  std::string path;                      // "" is the root
  std::vector<std::int32_t> parameters;  // of Graph::parameters, those of units within left out
  Range forward, backward;
  bool input_has_gradient = true;  // else its gradients are reduced when backward ends
  bool of_experts = false;         // shared by the ranks that have the same experts
  /// One that is frozen and given no gradient does not: it is not gathered for backward, but where the unit behind it
  /// has it gathered ahead, which nothing waits for.
  bool runs_backward() const { return backward.begin != backward.end; }
  std::size_t within = 0;  // the unit that it is a part of, which has its steps, too; 0: the root
};

/// What a gather of the unit makes whole, and what is reduced of its gradients: shards padded to one size, of all
/// ranks.
std::int64_t gathered_bytes(const Graph& graph, const FsdpUnit& unit, const Strategy& strategy);
std::int64_t reduced_bytes(const Graph& graph, const Schedule& schedule, const FsdpUnit& unit,
                           const Strategy& strategy);

/// The module that a part of the forward is, by its path: what those of its layers begin with together.
std::string path_of(const Graph& graph, const Checkpoint& part);

/// What is wrapped: the blocks of every repeat, or those that Strategy::unit_glob names. For build_graph().
CheckpointConfig wrapped_blocks(const Strategy& strategy);

/// The root first, then the units of `graph`, which was built with wrapped_blocks(), in the order their forwards end.
/// Throws Error, of kind usage, for a glob that no block matches.
std::vector<FsdpUnit> fsdp_units(const Graph& graph, const Schedule& schedule, const Strategy& strategy);

}  // namespace gpuplan
