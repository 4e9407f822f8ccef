// The buckets in which DistributedDataParallel reduces gradients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/dtype.h"

namespace gpuplan {

struct GradientSize {
  std::int64_t elements = 0;
  DType dtype = DType::fp32;
};

constexpr std::int64_t kFirstBucketBytes = 1 << 20;  // dist._DEFAULT_FIRST_BUCKET_BYTES

/// Bytes of each bucket, in the order they are filled (torch/csrc/distributed/c10d/reducer.cpp,
/// compute_bucket_assignment_by_size): gradients one after another, each type in buckets of its own; a bucket is closed
/// once it has reached its limit, so that it may be larger by a gradient. The first limit is `first_bytes`, every other
/// `cap_bytes`. The first is the cap where that is not the default (distributed.py, _BucketCapacityConfig).
std::vector<std::int64_t> ddp_buckets(std::span<const GradientSize> gradients, std::int64_t first_bytes,
                                      std::int64_t cap_bytes);

}  // namespace gpuplan
