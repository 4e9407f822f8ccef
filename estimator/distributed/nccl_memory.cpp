#include "estimator/distributed/nccl_memory.h"

#include <algorithm>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/nccl_fabric.h"

namespace gpuplan {
namespace {

// Of `ranks` that are `stride` apart in a job of nodes of `node` GPUs.
NcclGroup group_of(std::int64_t ranks, std::int64_t stride, std::int64_t node) {
  const std::int64_t local = std::clamp<std::int64_t>(node / stride, 1, ranks);
  return {.ranks = ranks, .local_ranks = (ranks - 1) * stride < node ? ranks : local, .stride = stride};
}

std::vector<NcclGroup> communicators(const Strategy& s) {
  const std::int64_t node = s.gpus_per_node, layers = s.tensor;
  const auto of = [&](std::int64_t ranks, std::int64_t apart) { return group_of(ranks, apart * layers, node); };
  std::vector<NcclGroup> all = {group_of(s.tensor, 1, node)};
  // Ranks of a context have nothing else in common in inference.
  const bool trains = s.context == 1 || s.data != DataParallel::none;
  if (trains) all.insert(all.begin(), {of(s.shards(), 1), of(s.replicas, s.shards())});
  NcclGroup stages = of(s.pipeline, s.ranks());
  stages.collectives = false;
  stages.peers = std::min<std::int64_t>(s.pipeline - 1, 2);
  NcclGroup experts = group_of(s.experts, 1, node);  // of those that share layers, too
  experts.collectives = false;
  experts.peers = s.experts - 1;
  NcclGroup context = of(s.context, 1);
  // Gradients, to the next and from the one before: a peer's two connections. Transformer Engine's ring turns back.
  context.peers = s.context > 1 && trains ? 1 : 0;
  if (s.is_megatron()) context.peers = std::min<std::int64_t>(s.context - 1, 2);
  const std::int64_t alike = s.experts > 1 ? s.group(true).ranks : 1;
  all.insert(all.end(), {stages, experts, context, group_of(alike, s.experts, node)});
  return all;
}

}  // namespace

NcclBuffers nccl_buffers(const Strategy& strategy, const Gpu& gpu, PyTorchVersion pytorch) {
  NcclBuffers sum;
  for (const NcclGroup& group : communicators(strategy)) {
    const NcclBuffers one = nccl_buffers(group, gpu, nccl_of(pytorch));
    sum.least = checked_add(sum.least, one.least);
    sum.planned = checked_add(sum.planned, one.planned);
    const bool reading = group.ranks > 1 && has_nvlink(gpu, group.span());
    sum.most = checked_add(sum.most, reading ? std::max(one.most, kMostNcclBytes) : one.most);
  }
  return sum;
}

std::int64_t context_bytes(const RunConfig& run, const Gpu& gpu, const Strategy& strategy) {
  if (run.context_bytes) return *run.context_bytes;
  return checked_add(gpu.context_bytes.value_or(kAssumedContextBytes),
                     nccl_buffers(strategy, gpu, run.pytorch).planned);
}

}  // namespace gpuplan
