// The sizes PyTorch's caching allocator is built on (c10/core/AllocatorConfig.h), in bytes.
#pragma once

#include <cstdint>

namespace gpuplan {

constexpr std::int64_t kMinBlockBytes = 512;                      // kMinBlockSize: every request is a multiple of it
constexpr std::int64_t kSmallBytes = 1 << 20;                     // kSmallSize: up to here from the small pool
constexpr std::int64_t kSmallSegmentBytes = 2 << 20;              // kSmallBuffer
constexpr std::int64_t kMinLargeSegmentBytes = 10 << 20;          // kMinLargeAlloc: from here a segment of its own size
constexpr std::int64_t kSegmentStepBytes = 2 << 20;               // kRoundLarge: to which such a segment is rounded
constexpr std::int64_t kMaxRequestBytes = std::int64_t{1} << 56;  // ours: far from overflow, beyond any GPU

// roundup_power2_divisions by interval: interval i is for sizes from 2^(20 + i), the last for all beyond.
constexpr int kFirstIntervalLog2 = 20;
constexpr int kIntervals = 16;

}  // namespace gpuplan
