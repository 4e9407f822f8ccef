// The flat parameters of DeepSpeed's stages 1 and 2, of which each rank has a part.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"

namespace gpuplan {

/// A rank's part of all trained parameters, which lie one after another in the order of Graph::parameters, padded to a
/// multiple of 2 * ranks elements.
struct FlatPart {
  std::int64_t elements = 0;      // of every rank's part
  std::int64_t all_elements = 0;  // of all parts, padding and all
  struct Within {
    std::int32_t parameter;  // of Graph::parameters
    std::int64_t elements;   // of it, in this rank's part
  };
  std::vector<Within> parameters;  // that the part has something of
  std::int64_t padding = 0;        // elements at its end that are none of a parameter
};
FlatPart flat_part(const Graph& graph, std::int64_t ranks, std::int64_t rank);

}  // namespace gpuplan
