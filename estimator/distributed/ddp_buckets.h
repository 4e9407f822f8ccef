// The buckets in which DistributedDataParallel reduces gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "estimator/base/dtype.h"

namespace gpuplan {

struct GradientSize {
  std::int64_t elements = 0;
  DType dtype = DType::fp32;
};

constexpr std::int64_t kFirstBucketBytes = 1 << 20;  // dist._DEFAULT_FIRST_BUCKET_BYTES

struct DdpBucket {
  std::int64_t bytes = 0;
  std::size_t last = 0;        // index of the gradient that fills it
  std::int32_t gradients = 0;  // in it
};

/// Each bucket, in the order they are filled (torch/csrc/distributed/c10d/reducer.cpp,
/// compute_bucket_assignment_by_size): gradients one after another, each type in buckets of its own; a bucket is closed
/// once it has reached its limit, so that it may be larger by a gradient. The first limit is `first_bytes`, every other
/// `cap_bytes`. The first is the cap where that is not the default (distributed.py, _BucketCapacityConfig).
std::vector<DdpBucket> ddp_buckets(std::span<const GradientSize> gradients, std::int64_t first_bytes,
                                   std::int64_t cap_bytes);

/// A bucket of a step.
struct GradientBucket {
  std::int64_t bytes = 0;
  std::int32_t gradients = 0;   // in it
  std::int32_t after_step = 0;  // of the last micro-batch's schedule: all of them are there
};

}  // namespace gpuplan
