// A piece of a segment of the caching allocator.
#pragma once

#include <cstdint>

namespace gpuplan {

/// Names a block of an allocator until it is released.
using BlockId = std::uint32_t;

/// What allocate() returns for 0 bytes; releasing it does nothing.
constexpr BlockId kNoBlock = UINT32_MAX;
/// What allocate() returns when even an emptied cache leaves no room; out_of_memory() has the numbers.
constexpr BlockId kOutOfMemory = UINT32_MAX - 1;

/// One cache line. The links are to neighbours in the segment and in the list of free blocks.
struct alignas(64) PoolBlock {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t requested_bytes = 0;
  std::int64_t freed_at = 0;  // lookups in the large pool when it became free: its age for garbage collection
  BlockId previous = kNoBlock, next = kNoBlock;
  BlockId free_previous = kNoBlock, free_next = kNoBlock;
  std::uint32_t pool = 0;
  bool allocated = false;
  bool mapped = true;  // false: the part of an expandable segment's range with no memory behind it
};

}  // namespace gpuplan
