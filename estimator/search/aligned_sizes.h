// Sizes of a model that would run faster on tensor cores if they were padded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/micro_batch_schedules.h"
#include "estimator/spec/model.h"

namespace gpuplan {

struct UnalignedSize {
  std::int64_t size = 0;      // elements from one row of a factor to the next
  std::int64_t flops = 0;     // of the products that read such rows
  DType dtype = DType::fp32;  // of the factor
};

/// Of matrix products; most arithmetic first.
std::vector<UnalignedSize> unaligned_sizes(const MicroBatchSchedules& micro_batches);

/// The model with another number wherever a layer's argument, or a variable, is `size`. Whether it is still a model
/// shows when it is planned.
Model with_size(const Model& model, std::int64_t size, std::int64_t other);
/// How to ask for it: "--set vocab=50304" where the size is one variable's, else "50304 in the place of 50257".
std::string size_change(const Model& model, std::int64_t size, std::int64_t other);

}  // namespace gpuplan
