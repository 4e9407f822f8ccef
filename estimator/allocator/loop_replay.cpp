#include "estimator/allocator/loop_replay.h"

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/plain_allocators.h"
#include "estimator/allocator/training_loop.h"
#include "estimator/base/error.h"

namespace gpuplan {

namespace {

LoopReplay replay_under(BlockAllocator& allocator, const RankStep& step) {
  LoopReplay replay;
  if (replay_loop(allocator, step, nullptr, kLoopSteps, &replay).out_of_memory)
    throw Error("the step needs more memory than there are addresses");
  return replay;
}

}  // namespace

LoopReplay replay_step(const RankStep& step) {
  if (step.run.allocator != AllocatorKind::caching) {
    PlainAllocator plain(step.run.allocator == AllocatorKind::exact ? 1 : kDriverGranuleBytes);
    return replay_under(plain, step);
  }
  ArithmeticSegments segments;
  CachingAllocator caching(segments, parse_alloc_conf(step.run.alloc_conf));
  return replay_under(caching, step);
}

LimitedReplay replay_within(std::int64_t bytes, const RankStep& step) {
  ArithmeticSegments segments(bytes);
  CachingAllocator caching(segments, parse_alloc_conf(step.run.alloc_conf));
  return replay_loop(caching, step);
}

}  // namespace gpuplan
