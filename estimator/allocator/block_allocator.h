// What a training loop asks of an allocator: blocks, and the readings of what they take. All sizes are bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/allocator/pool_block.h"

namespace gpuplan {

/// The readings PyTorch prints in its OutOfMemoryError ("Tried to allocate ...").
struct OutOfMemory {
  std::int64_t tried_bytes = 0;      // the segment asked for: what the message calls "tried to allocate"
  std::int64_t requested_bytes = 0;  // what the caller asked for
  std::int64_t allocated_bytes = 0;
  std::int64_t reserved_bytes = 0;
};

/// A count and the highest it has been since reset_peaks().
struct PeakCounter {
  std::int64_t now = 0;
  std::int64_t peak = 0;
  void add(std::int64_t delta) {
    now += delta;
    if (now > peak) peak = now;
  }
  /// add(delta), then add(-delta).
  void touch(std::int64_t delta) {
    if (now + delta > peak) peak = now + delta;
  }
};

/// Not for several threads at once. Block ids are reused after release.
class BlockAllocator {
 public:
  BlockAllocator() = default;
  BlockAllocator(const BlockAllocator&) = delete;
  BlockAllocator& operator=(const BlockAllocator&) = delete;
  virtual ~BlockAllocator() = default;

  /// A block of at least `bytes` for work on `stream`; kNoBlock for 0 bytes, kOutOfMemory when there is
  /// no room. Throws Error when bytes < 0 or so big that rounding overflows.
  virtual BlockId allocate(std::int64_t bytes, std::int64_t stream = 0) = 0;
  /// What a block of `bytes` on stream 0 charges, bytes, that is released before anything else happens: readings and
  /// peaks are those of allocate() and release(), which it stands for. Nothing, and nothing happens, where these have
  /// to be called.
  virtual std::optional<std::int64_t> use(std::int64_t /*bytes*/) { return std::nullopt; }
  /// kNoBlock is ignored.
  virtual void release(BlockId block) = 0;
  /// That of a block that other streams have used (Tensor.record_stream), whose events are complete when the next block
  /// is asked for: it is not allocated any more, and its memory is free from then on.
  virtual void release_later(BlockId block) { release(block); }
  /// torch.cuda.empty_cache(); nothing where no cache is kept.
  virtual void empty_cache() {}
  /// 0 where blocks only count.
  virtual std::uint64_t address(BlockId /*block*/) const { return 0; }
  /// What the block charges to allocated_bytes(): its rounded size and any remainder too small to split off.
  virtual std::int64_t charged_bytes(BlockId block) const = 0;

  std::int64_t allocated_bytes() const { return allocated_.now; }  // torch.cuda.memory_allocated()
  std::int64_t requested_bytes() const { return requested_.now; }  // memory_stats()["requested_bytes.all.current"]
  std::int64_t reserved_bytes() const { return reserved_.now; }    // torch.cuda.memory_reserved()
  std::int64_t peak_allocated_bytes() const { return allocated_.peak; }
  std::int64_t peak_requested_bytes() const { return requested_.peak; }
  std::int64_t peak_reserved_bytes() const { return reserved_.peak; }
  /// Free bytes in segments that are partly in use; 0 with expandable segments, as in PyTorch.
  std::int64_t inactive_split_bytes() const { return inactive_split_.now; }
  std::int64_t peak_inactive_split_bytes() const { return inactive_split_.peak; }
  void reset_peaks() {  // torch.cuda.reset_peak_memory_stats()
    for (PeakCounter* counter : {&allocated_, &requested_, &reserved_, &inactive_split_}) counter->peak = counter->now;
  }

  std::int64_t segment_count() const { return segment_count_; }  // cudaMalloc'ed ones; expandable ones do not count
  std::int64_t retry_count() const { return retry_count_; }      // num_alloc_retries: caches emptied for want of memory
  const OutOfMemory& out_of_memory() const { return out_of_memory_; }

 protected:
  PeakCounter allocated_, requested_, reserved_, inactive_split_;
  std::int64_t segment_count_ = 0, retry_count_ = 0;
  OutOfMemory out_of_memory_;
};

}  // namespace gpuplan
