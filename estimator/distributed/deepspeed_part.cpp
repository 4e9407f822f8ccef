#include "estimator/distributed/deepspeed_part.h"

#include <algorithm>

#include "estimator/base/integers.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {

FlatPart flat_part(const Graph& graph, std::int64_t ranks, std::int64_t rank) {
  constexpr std::int64_t kStartAlignment = 2;  // nccl_start_alignment_factor
  FlatPart part;
  std::int64_t all = 0;
  for (const ParameterTensor& p : graph.parameters)
    if (p.trainable) all = checked_add(all, graph.tensor(p.tensor).shape.elements());
  part.elements = flat_partition(all, ranks, kStartAlignment);
  part.all_elements = checked_mul(part.elements, ranks);
  const std::int64_t begin = rank * part.elements, end = begin + part.elements;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    if (!graph.parameters[i].trainable) continue;
    const std::int64_t next = at + graph.tensor(graph.parameters[i].tensor).shape.elements();
    const std::int64_t within = std::min(next, end) - std::max(at, begin);
    if (within > 0) part.parameters.push_back({static_cast<std::int32_t>(i), within});
    at = next;
  }
  part.padding = std::max<std::int64_t>(0, end - std::max(at, begin));
  return part;
}

}  // namespace gpuplan
