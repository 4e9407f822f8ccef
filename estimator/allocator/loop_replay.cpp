#include "estimator/allocator/loop_replay.h"

#include <vector>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/training_loop.h"
#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {

namespace {

// The driver's granules of 2 MiB (facts, section 1.4), for cudaMalloc for every tensor. The driver lets small
// allocations share a granule; that is not modelled, so many small tensors are counted too high.
constexpr std::int64_t kDriverGranuleBytes = std::int64_t{2} << 20;

// What the caching allocator is compared with: every tensor a segment of its own. Charges `granule`-rounded sizes;
// reserved is what is charged, live now. With a granule of 1 the sum of the sizes asked for: the floor below any
// allocator.
class PlainAllocator final : public BlockAllocator {
 public:
  explicit PlainAllocator(std::int64_t granule) : granule_(granule) {}

  BlockId allocate(std::int64_t bytes, std::int64_t /*stream*/ = 0) override {
    if (bytes == 0) return kNoBlock;
    const std::int64_t charged = round_up(bytes, granule_);
    allocated_.add(charged);
    reserved_.add(charged);
    requested_.add(bytes);
    BlockId id = spare_;
    if (id == kNoBlock) {
      id = static_cast<BlockId>(blocks_.size());
      blocks_.push_back({});
    } else {
      spare_ = blocks_[id].next_spare;
    }
    blocks_[id] = {bytes, charged, kNoBlock};
    ++segment_count_;
    return id;
  }
  void release(BlockId id) override {
    if (id == kNoBlock) return;
    allocated_.add(-blocks_[id].charged);
    reserved_.add(-blocks_[id].charged);
    requested_.add(-blocks_[id].bytes);
    blocks_[id].next_spare = spare_;
    spare_ = id;
    --segment_count_;
  }
  std::int64_t charged_bytes(BlockId id) const override { return blocks_[id].charged; }

 private:
  struct Block {
    std::int64_t bytes = 0, charged = 0;
    BlockId next_spare = kNoBlock;
  };
  std::int64_t granule_;
  std::vector<Block> blocks_;
  BlockId spare_ = kNoBlock;
};

AllocatorSettings settings_of(const RunConfig& run) {
  AllocatorSettings settings = parse_alloc_conf(run.alloc_conf);
  settings.segment_order = run.segments;
  return settings;
}

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
  const AllocatorSettings settings = settings_of(step.run);
  ArithmeticSegments segments(INT64_MAX, settings.segment_order);
  CachingAllocator caching(segments, settings);
  return replay_under(caching, step);
}

LimitedReplay replay_within(std::int64_t bytes, const RankStep& step) {
  const AllocatorSettings settings = settings_of(step.run);
  ArithmeticSegments segments(bytes, settings.segment_order);
  CachingAllocator caching(segments, settings);
  return replay_loop(caching, step);
}

LimitedReplay replay_each_within(std::int64_t bytes, const RunConfig& run, int steps, const NextStep& next,
                                 const StepTold& told) {
  const AllocatorSettings settings = settings_of(run);
  ArithmeticSegments segments(bytes, settings.segment_order);
  CachingAllocator caching(segments, settings);
  return replay_each(caching, steps, next, told);
}

}  // namespace gpuplan
