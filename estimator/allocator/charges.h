// The least and the most bytes that an allocator may charge for a request, independent of its address.
#pragma once

#include <bit>
#include <cstdint>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/allocator_constants.h"
#include "estimator/base/integers.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

class Charges {
 public:
  /// Of run.allocator and run.alloc_conf.
  explicit Charges(const RunConfig& run) : kind_(run.allocator), settings_(parse_alloc_conf(run.alloc_conf)) {}

  std::int64_t least(std::int64_t bytes) const {
    if (kind_ == AllocatorKind::exact) return bytes;
    return round_up(bytes, kind_ == AllocatorKind::cuda_malloc ? kSegmentStepBytes : kMinBlockBytes);
  }
  /// A free block is not split where no more than 1 MiB would be left.
  std::int64_t most(std::int64_t bytes) const {
    if (kind_ != AllocatorKind::caching) return least(bytes);
    const bool rounds = settings_.roundup_power2_divisions > 1 || !settings_.roundup_by_interval.empty();
    const std::int64_t charge =
        rounds ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes))) : least(bytes);
    return charge > kSmallBytes ? checked_add(charge, kSmallBytes) : charge;
  }
  /// What a block may keep of the free one that it is cut from.
  std::int64_t rest() const { return kind_ == AllocatorKind::caching ? kSmallBytes : 0; }
  /// Of a segment for this request alone.
  std::int64_t segment(std::int64_t bytes) const {
    if (kind_ != AllocatorKind::caching) return least(bytes);
    const std::int64_t charge = most(bytes);
    if (charge <= kSmallBytes) return kSmallSegmentBytes;
    return charge < kMinLargeSegmentBytes ? settings_.large_segment_bytes : round_up(charge, kSegmentStepBytes);
  }
  /// Of segments for small requests of so many bytes together, for none of which there is room elsewhere.
  std::int64_t small_segments(std::int64_t bytes) const {
    return kind_ == AllocatorKind::caching ? round_up(bytes, kSmallSegmentBytes) : bytes;
  }

 private:
  AllocatorKind kind_;
  AllocatorSettings settings_;
};

}  // namespace gpuplan
