// What a rank keeps of a model's states under ZeRO (arXiv:1910.02054, sections 3 and 5) and FSDP2.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/base/shape.h"
#include "estimator/distributed/strategy.h"

namespace gpuplan {

/// Bytes an element. The paper's mixed-precision Adam: 2 + 2 + K with K = 12, a master copy and two moments in fp32.
struct StateSizes {
  std::int64_t parameter = 2, gradient = 2, optimizer = 12;
};

struct StateBytes {
  std::int64_t parameters = 0, gradients = 0, optimizer_state = 0;
  std::int64_t total() const { return parameters + gradients + optimizer_state; }
  bool operator==(const StateBytes&) const = default;
};

/// States of `rank`. The paper's stages: 1 shares the optimizer's, 2 the gradients too, 3 the parameters too. How a
/// model is cut into parts: zero1 as PyTorch's ZeroRedundancyOptimizer, whole parameters to the emptiest rank; zero2 as
/// DeepSpeed, all elements in a row, padded to a multiple of twice the ranks; zero3 as DeepSpeed, each parameter
/// padded to a multiple of the ranks; fsdp as FSDP2, rows of each parameter with padding, of which the optimizer has
/// only the rows that are there.
StateBytes state_bytes(std::span<const Shape> parameters, const StateSizes& sizes, const Strategy& strategy);

}  // namespace gpuplan
