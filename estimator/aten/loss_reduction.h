// What torch.nn's losses do with the error of each element or target.
#pragma once

#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

enum class LossReduction : std::uint8_t { mean, sum, none };

/// The argument `reduction`. Throws Error where it is another word.
inline LossReduction reduction_of(const LayerBuilder& b) {
  const std::string_view word = b.word("reduction");
  if (word == "mean") return LossReduction::mean;
  if (word == "sum") return LossReduction::sum;
  if (word != "none")
    b.fail("reduction", "unknown reduction '" + std::string(word) + "'", "expected 'mean', 'sum' or 'none'");
  return LossReduction::none;
}

}  // namespace gpuplan::aten
