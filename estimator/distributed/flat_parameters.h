// The flat parameters of FSDP1, torch.distributed.fsdp.FullyShardedDataParallel: one a wrapped module, of which each
// rank has a part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/strategy.h"
#include "estimator/distributed/zero_states.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// One module's parameters in a row, in elements. Empty where units within have all of its parameters.
struct FlatParameter {
  struct Within {
    std::int32_t parameter;        // of Graph::parameters
    std::int64_t begin, elements;  // where it lies, and how long it is
  };
  std::vector<Within> parameters;
  std::vector<std::int64_t> paddings;  // between them and behind the last one, which make tensors of their own
  std::int64_t elements = 0;           // with those
  std::int64_t shard_elements = 0;     // of each rank, the last one's padded
  DType stored = DType::fp32, computed = DType::fp32, reduced = DType::fp32;
};

/// One a unit. With use_orig_params each parameter begins at a multiple of 16 bytes, and the whole divides by the
/// ranks.
std::vector<FlatParameter> flat_parameters(const Graph& graph, std::span<const FsdpUnit> units,
                                           const Strategy& strategy, const RunConfig& run);

/// The same without what depends on a run: the type that parameters are stored in.
FlatParameter flat_layout(const Graph& graph, const FsdpUnit& unit, const Strategy& strategy);

/// What the rank holds of them, and of their gradients; the optimizer's state is not counted.
StateBytes flat_states(std::span<const FlatParameter> flat);

/// How many elements of the flat parameter, without padding behind it, the rank has.
std::int64_t own_elements(const FlatParameter& flat, std::int64_t rank);
/// And how many of one parameter.
std::int64_t own_elements(const FlatParameter& flat, const FlatParameter::Within& of, std::int64_t rank);

/// A gradient of a parameter that is used more than once, added up before `step`. Autograd does it where the gradient
/// goes to, on the stream of the gather.
struct SummedGradient {
  std::int32_t step;  // of the schedule
  BufferId gradient;
};
std::vector<SummedGradient> summed_gradients(const Schedule& schedule, const FlatParameter& flat);

/// What the optimizer of a rank steps, as a graph with its parameters and a schedule that says which get a gradient:
/// the flat parameters, or with use_orig_params what the rank has of each parameter.
void step_flat_parameters(Graph& graph, Schedule& schedule, std::span<const FlatParameter> flat,
                          const Strategy& strategy);

}  // namespace gpuplan
