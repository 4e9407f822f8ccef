#include "estimator/distributed/zero_states.h"

#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kStartAlignment = 2;  // stage_1_and_2.py, nccl_start_alignment_factor

struct Elements {
  std::int64_t parameters, gradients, optimizer;
};

Elements elements_of(std::span<const Shape> shapes, const Strategy& strategy) {
  const std::int64_t ranks = strategy.ranks();
  std::int64_t all = 0, rows = 0, padded = 0, each = 0;
  std::vector<std::int64_t> sizes;
  for (const Shape& shape : shapes) {
    sizes.push_back(shape.elements());
    all = checked_add(all, sizes.back());
    rows += shard_of(shape, strategy.shards(), strategy.shard()).elements();
    padded += padded_shard_elements(shape, strategy.shards());
    each += flat_partition(sizes.back(), ranks, 1);
  }
  switch (strategy.data) {
    case DataParallel::none:
    case DataParallel::ddp:
    case DataParallel::megatron: break;  // megatron_memory.h
    case DataParallel::zero1: {
      std::int64_t owned = 0;
      for (const std::int32_t i : parameters_of_rank(sizes, ranks, strategy.rank))
        owned += sizes[static_cast<std::size_t>(i)];
      return {all, all, owned};
    }
    case DataParallel::zero2: {
      const std::int64_t part = flat_partition(all, ranks, kStartAlignment);
      return {all, part, part};
    }
    case DataParallel::zero3: return {each, each, each};
    case DataParallel::fsdp: return {padded, padded, rows};
  }
  return {all, all, all};
}

}  // namespace

StateBytes state_bytes(std::span<const Shape> parameters, const StateSizes& sizes, const Strategy& strategy) {
  const Elements n = elements_of(parameters, strategy);
  return {checked_mul(n.parameters, sizes.parameter), checked_mul(n.gradients, sizes.gradient),
          checked_mul(n.optimizer, sizes.optimizer)};
}

}  // namespace gpuplan
