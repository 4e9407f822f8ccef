// What one rank of several keeps of a parameter, an optimizer or a model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/base/shape.h"

namespace gpuplan {

/// Rows of dimension 0 that each rank has room for: torch.chunk's, ceil(rows / ranks).
std::int64_t padded_rows(std::int64_t rows, std::int64_t ranks);

/// The rows that `rank` really has: the last ranks have fewer or none (FSDP2, _fsdp_param.py, _init_sharded_param;
/// DTensor's Shard(0)).
std::int64_t rows_of_rank(std::int64_t rows, std::int64_t ranks, std::int64_t rank);

/// The shard of FSDP2: dimension 0 split. A scalar is as one row.
Shape shard_of(const Shape& shape, std::int64_t ranks, std::int64_t rank);
/// Elements of that shard with its padding, the same on every rank.
std::int64_t padded_shard_elements(const Shape& shape, std::int64_t ranks);

/// Elements of each rank's part of a flat tensor that is padded to a multiple of `ranks` * `alignment` elements.
/// DeepSpeed: stages 1 and 2 pad to 2 * ranks (nccl_start_alignment_factor, stage_1_and_2.py), stage 3 each
/// parameter to `ranks` (partition_parameters.py).
std::int64_t flat_partition(std::int64_t elements, std::int64_t ranks, std::int64_t alignment);

/// torch.distributed.optim.ZeroRedundancyOptimizer (_partition_parameters): parameters from the largest to the
/// smallest, each to the rank that has the fewest elements so far, the first of equals. Those of `rank`, in that order.
std::vector<std::int32_t> parameters_of_rank(std::span<const std::int64_t> elements, std::int64_t ranks,
                                             std::int64_t rank);

}  // namespace gpuplan
