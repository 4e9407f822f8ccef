// What the GPU has while FSDP2 shares a model: made on `meta`, loaded whole, on the GPU already, or on the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "estimator/distributed/fsdp_members.h"

namespace gpuplan {

/// The units in the order in which fully_shard() is called on them, the root last.
std::vector<std::size_t> wrapping_order(const Graph& graph, std::span<const FsdpUnit> units, const Strategy& strategy);

/// Parameters get memory in that order where the model is on the host (Strategy::moves_units), buffers before the
/// root's.
void order_by_unit(Graph& graph, std::span<const FsdpUnit> units, const Strategy& strategy);

/// While a model is shared that is on the GPU already.
void cut_units(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy, const RunConfig& run,
               CollectiveWriter& writer);

/// While a model is shared that is on the host: each unit comes to the GPU whole before it is cut.
void move_units(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy, const RunConfig& run,
                CollectiveWriter& writer);

/// While the model is made: to_empty() makes shards without padding, and _fsdp_param.py's reset_sharded_param pads them
/// when the unit is made.
void write_construction(const Graph& graph, std::span<const FsdpBlocks> units, const Strategy& strategy,
                        const RunConfig& run, CollectiveWriter& writer);

}  // namespace gpuplan
