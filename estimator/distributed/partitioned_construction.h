// DeepSpeed's stage 3 while an engine is made: what is left of the model, and the optimizer's part of it.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"

namespace gpuplan {

/// Of one parameter, divided equally among `ranks`, with padding.
std::int64_t partition_elements(const Shape& shape, std::int64_t ranks);

/// Trained parameters in the order of Graph::parameters, cut where a part has PartitionSettings::part_elements: the
/// optimizer steps one part after another, each as one tensor.
struct PartitionedPart {
  std::vector<std::int64_t> each;  // elements of the rank's partition of each parameter
  std::int64_t elements() const;
};
std::vector<PartitionedPart> partitioned_parts(const Graph& graph, const Strategy& strategy);

/// Each parameter is cut, and what is trained laid together by way of the host; then come fp32 copies, the bucket of
/// gradients and those of the rank. `size`: bytes of a parameter's element.
void write_partitioned_construction(const Graph& graph, const std::vector<PartitionedPart>& parts,
                                    const Strategy& strategy, std::int64_t size, CollectiveWriter& writer);

}  // namespace gpuplan
