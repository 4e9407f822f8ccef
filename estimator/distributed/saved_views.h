// Views of parameters that autograd saves for backward: they hold the memory of a parameter that is let go meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// A parameter itself that is saved holds nothing: whoever lets it go replaces what it has (`p.data = torch.empty(0)`).
/// A view of it, of the same storage, does until its node has run: that of transformers' experts, whose weights are
/// turned for a grouped product.
struct SavedView {
  std::int32_t parameter = 0;  // of Graph::parameters
  std::int32_t step = 0;       // before which of Schedule::ops, in backward, it is gone
  bool in_checkpoint = false;  // it is saved when that is run again, in backward
};
std::vector<SavedView> saved_views(const Graph& graph, const Schedule& schedule);

}  // namespace gpuplan
