// One rank's share of a step: its part of the batch, and the parameters that its optimizer updates.
#pragma once

#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// `run` with the rank's part of the batch. Throws Error, of kind usage, for a batch that the ranks do not divide, and
/// for loops that are not planned with several GPUs.
RunConfig run_of_rank(const RunConfig& run, const Strategy& strategy);

/// Whether it is of experts that ranks share.
bool is_of_experts(const Graph& graph, const ParameterTensor& parameter);

/// The ranks that share a parameter, by FSDP2.
Strategy::Group shard_group(const Graph& graph, const ParameterTensor& parameter, const Strategy& strategy);

/// Whether DeepSpeed's stages are planned by definition, states shared in flat parts beside all else of one GPU, and
/// not as they run: what deepspeed_memory.h and deepspeed_partitioned.h have no rule for.
bool by_definition(const RunConfig& run, const Strategy& strategy);

/// What the optimizer of the rank steps: the parameters it owns, or its shards. ZeRO-2 and 3
/// step a part of a flat tensor (stage_1_and_2.py, stage3.py), of about as many elements as the shards.
struct SteppedShare {
  Graph graph;
  Schedule schedule;  // only what optimizer_work and step_update read
};
SteppedShare stepped_by(const Graph& graph, const Schedule& schedule, const RunConfig& run, const Strategy& strategy);

/// What FSDP2 cuts along its first dimension: the parameter, or, of bitsandbytes' numbers, a column of
/// the type that is computed in, which they lie in (bnb_4bit_quant_storage): [bytes / size, 1].
Shape cut_shape(const Graph& graph, const ParameterTensor& parameter);

/// The type that the shard of a parameter has: that of what the graph computes with, or, where a policy of FSDP2
/// gathers in another, the run's, or that of adapters beside it.
DType stored_type(const Graph& graph, const ParameterTensor& parameter, const Strategy& strategy, const RunConfig& run);

}  // namespace gpuplan
