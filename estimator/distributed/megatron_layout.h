// Where Megatron-core's DistributedDataParallel puts parameters and gradients: in one buffer, backward's order, of
// which the distributed optimizer gives each rank a part of every bucket. Rules: megatron/core 0.16,
// distributed/param_and_grad_buffer.py, optimizer/distrib_optimizer.py, checked against recorded traces.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"

namespace gpuplan {

/// Elements are counted from the buffer's beginning.
struct MegatronLayout {
  struct Placed {
    std::int32_t parameter;  // of Graph::parameters
    std::int64_t begin, elements;
    std::size_t bucket;
  };
  struct Bucket {
    std::int64_t begin, end;  // padded so that ranks can share it
  };
  std::vector<Placed> placed;  // trained ones, the last one first
  std::vector<Bucket> buckets;
  std::int64_t elements = 0;  // of the buffer, padding and all
};
MegatronLayout megatron_layout(const Graph& graph, const Strategy& strategy);

/// A main parameter in fp32 that the rank steps: all of a parameter, or the distributed optimizer's part of it.
struct MegatronPart {
  std::int32_t parameter;  // of Graph::parameters
  std::int64_t elements;
  bool decays;  // weight decay's group, which is stepped first: all but vectors and biases
};
/// In the order in which they are made and stepped.
std::vector<MegatronPart> megatron_parts(const Graph& graph, const Strategy& strategy);

}  // namespace gpuplan
