#include "estimator/distributed/alike_ranks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/deepspeed_memory.h"
#include "estimator/distributed/flat_parameters.h"
#include "estimator/distributed/megatron_layout.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

using Sizes = std::vector<std::int64_t>;

// Shards differ by how many rows a rank has of each dimension 0 that there is, of experts or not.
Sizes shard_rows(const std::set<std::pair<bool, std::int64_t>>& dimensions, const Strategy& strategy,
                 std::int64_t rank) {
  Strategy of_rank = strategy;
  of_rank.rank = rank;
  Sizes rows;
  for (const auto& [of_experts, d] : dimensions) {
    const Strategy::Group group = of_rank.group(of_experts);
    rows.push_back(rows_of_rank(d, group.ranks, group.rank));
  }
  return rows;
}

Sizes part_sizes(const Graph& graph, const Strategy& strategy, std::int64_t rank) {
  const FlatPart part = flat_part(graph, strategy.ranks(), rank);
  Sizes sizes{part.padding};
  for (const FlatPart::Within& w : part.parameters) {
    sizes.push_back(w.elements);
    sizes.push_back(graph.tensor(graph.parameters[index(w.parameter)].tensor).shape.elements());
  }
  return sizes;
}

// With use_orig_params the optimizer steps what the rank has of each parameter; flat parameters differ while they are
// made.
Sizes flat_sizes(std::span<const FlatParameter> flat, const Strategy& strategy, std::int64_t rank) {
  Strategy of_rank = strategy;
  of_rank.rank = rank;
  Sizes sizes;
  for (const FlatParameter& f : flat) {
    sizes.push_back(own_elements(f, of_rank.shard()));
    for (const FlatParameter::Within& w : f.parameters)
      if (strategy.flat->original_parameters) sizes.push_back(own_elements(f, w, of_rank.shard()));
  }
  return sizes;
}

Sizes main_sizes(const Graph& graph, const Strategy& strategy, std::int64_t rank) {
  Strategy of_rank = strategy;
  of_rank.rank = rank;
  Sizes sizes;
  if (!strategy.megatron.distributed_optimizer) return sizes;
  for (const MegatronPart& part : megatron_parts(graph, of_rank))
    sizes.insert(sizes.end(), {part.elements, part.decays ? 1 : 0});  // each group is stepped by itself
  return sizes;
}

}  // namespace

std::vector<AlikeRanks> alike_ranks(const Graph& graph, const RunConfig& run, const Strategy& strategy) {
  std::set<std::pair<bool, std::int64_t>> dimensions;
  Sizes elements;
  for (const ParameterTensor& p : graph.parameters) {
    const Shape shape = cut_shape(graph, p);
    dimensions.emplace(is_of_experts(graph, p), shape.rank() == 0 ? 1 : shape[0]);
    if (p.trainable) elements.push_back(shape.elements());
  }
  std::vector<FlatParameter> flat;
  if (strategy.flat) flat = flat_parameters(graph, fsdp_units(graph, Schedule{}, strategy), strategy, run);
  const auto parts_of = [&](std::int64_t rank) -> Sizes {
    switch (strategy.data) {
      case DataParallel::fsdp:
        return strategy.flat ? flat_sizes(flat, strategy, rank) : shard_rows(dimensions, strategy, rank);
      case DataParallel::zero1: {
        Sizes owned;
        for (const std::int32_t p : parameters_of_rank(elements, strategy.ranks(), rank))
          owned.push_back(elements[index(p)]);
        return owned;
      }
      case DataParallel::zero2: return by_definition(run, strategy) ? Sizes{} : part_sizes(graph, strategy, rank);
      case DataParallel::megatron: return main_sizes(graph, strategy, rank);
      case DataParallel::zero3:
      case DataParallel::none:
      case DataParallel::ddp: break;
    }
    return {};
  };
  const auto holds = [&](std::int64_t rank) {
    Sizes sizes = parts_of(rank);
    sizes.push_back(rank % strategy.context);  // whose turns of a ring are its own
    return sizes;
  };
  std::map<Sizes, std::size_t> known;
  std::vector<AlikeRanks> alike;
  for (std::int64_t rank = 0; rank < strategy.ranks(); ++rank) {
    const auto [found, is_new] = known.try_emplace(holds(rank), alike.size());
    if (is_new) alike.emplace_back();
    alike[found->second].push_back(rank);
  }
  return alike;
}

}  // namespace gpuplan
