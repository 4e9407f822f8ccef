#include "estimator/distributed/megatron_layout.h"

#include <algorithm>
#include <numeric>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kStartOfParameter = 64, kEndOfBucket = 128;            // elements that places are multiples of
constexpr std::int64_t kLeastBucket = 40'000'000, kBucketOfRank = 1'000'000;  // elements

// Without overlap there is one bucket (DistributedDataParallel.__init__). The default counts no ranks of a context.
std::int64_t bucket_limit(const Strategy& strategy) {
  const MegatronSettings& m = strategy.megatron;
  if (!m.overlaps_reductions) return INT64_MAX;
  return m.bucket_elements > 0 ? m.bucket_elements
                               : std::max(kLeastBucket, checked_mul(kBucketOfRank, strategy.sample_groups()));
}

bool has_decay(const Graph& graph, std::int32_t parameter) {
  const ParameterTensor& p = graph.parameters[index(parameter)];
  return graph.tensor(p.tensor).shape.rank() != 1 && p.name != "bias";
}

}  // namespace

MegatronLayout megatron_layout(const Graph& graph, const Strategy& strategy) {
  const bool shares = strategy.megatron.distributed_optimizer;
  const std::int64_t limit = bucket_limit(strategy), end_of_bucket = std::lcm(strategy.ranks(), kEndOfBucket);
  MegatronLayout layout;
  std::int64_t at = 0, bucket = 0;
  const auto end_bucket = [&] {
    if (shares) at = round_up(at, end_of_bucket);
    layout.buckets.push_back({bucket, at});
    bucket = at;
  };
  for (std::size_t i = graph.parameters.size(); i-- > 0;) {
    if (!graph.parameters[i].trainable) continue;
    if (shares) at = round_up(at, kStartOfParameter);
    const std::int64_t elements = graph.tensor(graph.parameters[i].tensor).shape.elements();
    layout.placed.push_back({static_cast<std::int32_t>(i), at, elements, layout.buckets.size()});
    at = checked_add(at, elements);
    if (at - bucket >= limit) end_bucket();
  }
  if (at > bucket) end_bucket();
  layout.elements = at;
  return layout;
}

std::vector<MegatronPart> megatron_parts(const Graph& graph, const Strategy& strategy) {
  std::vector<MegatronPart> parts;
  if (strategy.megatron.distributed_optimizer) {
    const MegatronLayout layout = megatron_layout(graph, strategy);
    for (const MegatronLayout::Placed& p : layout.placed) {
      const MegatronLayout::Bucket& bucket = layout.buckets[p.bucket];
      const std::int64_t each = (bucket.end - bucket.begin) / strategy.ranks();
      const std::int64_t begin = bucket.begin + strategy.rank * each;
      const std::int64_t own = std::min(p.begin + p.elements, begin + each) - std::max(p.begin, begin);
      if (own > 0) parts.push_back({p.parameter, own, has_decay(graph, p.parameter)});
    }
  } else {
    for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
      if (!graph.parameters[i].trainable) continue;
      const auto number = static_cast<std::int32_t>(i);
      const std::int64_t elements = graph.tensor(graph.parameters[i].tensor).shape.elements();
      parts.push_back({number, elements, has_decay(graph, number)});
    }
  }
  std::stable_partition(parts.begin(), parts.end(), [](const MegatronPart& p) { return p.decays; });
  return parts;
}

}  // namespace gpuplan
