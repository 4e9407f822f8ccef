// An independent look at an allocator's blocks: plain sorting and adding, none of the allocator's own
// bookkeeping.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "estimator/allocator/allocator.h"

namespace gpuplan {

/// What a caller holds: where it is and the bytes it asked for.
struct LiveBlock {
  std::uint64_t address = 0;
  std::int64_t requested_bytes = 0;
};

/// Returns "" when all is well, else the first thing that is not, in words: blocks tile their segments and
/// segments do not overlap; no two free neighbours; `live` is exactly what is allocated, without
/// overlap; the counters are the sums of what is there. Takes n log n for n blocks.
std::string check_blocks(const CachingAllocator& allocator, std::span<const LiveBlock> live);

}  // namespace gpuplan
