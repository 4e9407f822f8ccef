#include "estimator/allocator/placement.h"

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/plain_allocators.h"
#include "estimator/allocator/training_loop.h"
#include "estimator/base/error.h"

namespace gpuplan {

Placement place(const Graph& graph, std::span<const Schedule> passes, const OptimizerWork& optimizer,
                const RunConfig& run, const Gpu& gpu, const CollectiveMemory* collectives) {
  const LoopParts parts{graph, passes, optimizer, run, gpu, collectives};
  switch (run.allocator) {
    case AllocatorKind::exact: {
      ExactAllocator exact;
      return TrainingLoop<ExactAllocator>(exact, parts).replay();
    }
    case AllocatorKind::cuda_malloc: {
      CudaMallocAllocator plain;
      return TrainingLoop<CudaMallocAllocator>(plain, parts).replay();
    }
    case AllocatorKind::caching: break;
  }
  ArithmeticSegments segments;
  CachingAllocator caching(segments, parse_alloc_conf(run.alloc_conf));
  try {
    return TrainingLoop<CachingAllocator>(caching, parts).replay();
  } catch (const NoRoom&) {
    throw Error("the step needs more memory than there are addresses");
  }
}

LimitedPlacement place_within(std::int64_t bytes, const Graph& graph, std::span<const Schedule> passes,
                              const OptimizerWork& optimizer, const RunConfig& run, const Gpu& gpu) {
  ArithmeticSegments segments(bytes);
  CachingAllocator caching(segments, parse_alloc_conf(run.alloc_conf));
  return TrainingLoop<CachingAllocator>(caching, {graph, passes, optimizer, run, gpu, nullptr}).replay_within_limit();
}

}  // namespace gpuplan
