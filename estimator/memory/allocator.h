// PyTorch's caching allocator, rule for rule (facts: c10/cuda/CUDACachingAllocator.cpp), over any source
// of segments: arithmetic when planning, cudaMalloc when validating.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace gpuplan {

struct AllocatorSettings {
  bool expandable_segments = false;
  std::int64_t max_split_bytes = INT64_MAX;              // max_split_size_mb
  std::int64_t max_non_split_rounding_bytes = 20 << 20;  // max_non_split_rounding_mb
  std::int64_t large_segment_bytes = 20 << 20;           // large_segment_size_mb
  std::int64_t roundup_power2_divisions = 0;             // 0: off (one value for all sizes)
  std::vector<std::int64_t> roundup_by_interval;         // the [256:1,512:2,...] form, empty: off
  double garbage_collection_threshold = 0;
};

/// Parses PYTORCH_ALLOC_CONF ("expandable_segments:True,max_split_size_mb:32"). Throws Error (kind usage) with
/// the key's nearest spelling on what PyTorch would refuse.
AllocatorSettings parse_alloc_conf(std::string_view text);

/// Where segments come from. Addresses only need to be ordered and distinct.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// Returns the address of `bytes` fresh bytes, or 0 when there is no room.
  virtual std::uint64_t allocate(std::int64_t bytes) = 0;
  virtual void release(std::uint64_t address, std::int64_t bytes) = 0;
  /// Expandable segments: reserve a range of addresses, then map and unmap pages in it.
  virtual std::uint64_t reserve(std::int64_t bytes) = 0;
  virtual bool map(std::uint64_t address, std::int64_t bytes) = 0;
  virtual void unmap(std::uint64_t address, std::int64_t bytes) = 0;
};

}  // namespace gpuplan
