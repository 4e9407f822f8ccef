// Memory that an engine takes on an empty GPU: PyTorch's allocator, and whether anything was refused.
#pragma once

#include <cstdint>

#include "estimator/allocator/allocator.h"
#include "estimator/device/gpu.h"

namespace gpuplan {

/// `max_split`: bytes of the largest block that is split. A GPU without a size has room for everything.
class EngineMemory {
 public:
  explicit EngineMemory(const Gpu& gpu, std::int64_t max_split)
      : segments_(gpu.memory_bytes > 0 ? usable_bytes(gpu) : INT64_MAX), allocator_(segments_, settings(max_split)) {}

  BlockId take(std::int64_t bytes) {
    const BlockId block = allocator_.allocate(bytes);
    full_ = full_ || block == kOutOfMemory;
    return block == kOutOfMemory ? kNoBlock : block;
  }
  void drop(BlockId block) { allocator_.release(block); }
  void use(std::int64_t bytes) { drop(take(bytes)); }
  CachingAllocator& allocator() { return allocator_; }
  bool full() const { return full_; }

 private:
  static AllocatorSettings settings(std::int64_t max_split) {
    AllocatorSettings s;
    s.max_split_bytes = max_split;
    return s;
  }
  ArithmeticSegments segments_;
  CachingAllocator allocator_;
  bool full_ = false;
};

}  // namespace gpuplan
