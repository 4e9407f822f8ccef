// Two allocators to compare the caching one with: no rounding at all, and
// every tensor a cudaMalloc of its own. They offer what the replay of a schedule asks of CachingAllocator.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/allocator/allocator.h"
#include "estimator/base/integers.h"

namespace gpuplan {

/// Charges `granule`-rounded sizes; reserved is what is charged, live now.
class PlainAllocator {
 public:
  BlockId allocate(std::int64_t bytes) {
    if (bytes == 0) return kNoBlock;
    const std::int64_t charged = round_up(bytes, granule_);
    allocated_.add(charged);
    requested_.add(bytes);
    BlockId id = spare_;
    if (id == kNoBlock) {
      id = static_cast<BlockId>(blocks_.size());
      blocks_.push_back({});
    } else {
      spare_ = blocks_[id].next_spare;
    }
    blocks_[id] = {bytes, charged, kNoBlock};
    ++count_;
    return id;
  }
  void release(BlockId id) {
    if (id == kNoBlock) return;
    allocated_.add(-blocks_[id].charged);
    requested_.add(-blocks_[id].bytes);
    blocks_[id].next_spare = spare_;
    spare_ = id;
    --count_;
  }
  std::int64_t charged_bytes(BlockId id) const { return blocks_[id].charged; }
  std::int64_t allocated_bytes() const { return allocated_.now; }
  std::int64_t requested_bytes() const { return requested_.now; }
  std::int64_t reserved_bytes() const { return allocated_.now; }
  std::int64_t peak_allocated_bytes() const { return allocated_.peak; }
  std::int64_t peak_requested_bytes() const { return requested_.peak; }
  std::int64_t peak_reserved_bytes() const { return allocated_.peak; }
  std::int64_t inactive_split_bytes() const { return 0; }
  std::int64_t segment_count() const { return count_; }
  void reset_peaks() {
    allocated_.peak = allocated_.now;
    requested_.peak = requested_.now;
  }

 protected:
  explicit PlainAllocator(std::int64_t granule) : granule_(granule) {}

 private:
  struct Block {
    std::int64_t bytes = 0, charged = 0;
    BlockId next_spare = kNoBlock;
  };
  std::int64_t granule_;
  std::vector<Block> blocks_;
  BlockId spare_ = kNoBlock;
  PeakCounter allocated_, requested_;
  std::int64_t count_ = 0;
};

/// The sum of the sizes asked for: the floor below any allocator.
class ExactAllocator : public PlainAllocator {
 public:
  ExactAllocator() : PlainAllocator(1) {}
};

/// cudaMalloc for every tensor, in the driver's granules of 2 MiB (facts, section 1.4). The driver lets small
/// allocations share a granule; that is not modelled, so many small tensors are counted too high.
class CudaMallocAllocator : public PlainAllocator {
 public:
  CudaMallocAllocator() : PlainAllocator(std::int64_t{2} << 20) {}
};

}  // namespace gpuplan
