// Suggestions for a figure that exceeds its limit: changes of the run that bring it below.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// What has to get smaller, of the model planned with another run, and to what. `amount` may throw Error, for a run
/// that is none.
struct Ceiling {
  std::function<std::int64_t(const RunConfig&)> amount;
  std::int64_t most = 0;
  std::int64_t ranks = 1;  // that have samples of their own: a batch is a multiple of them
};

struct SuggestionUnder {
  std::string flags;
  std::int64_t amount = 0;  // with them
};

/// Planned, each of them: the largest batch that is under the ceiling, the fewest micro-batches, and what of
/// changed_runs() helps, each by itself; where none does the best pair. `gpu`: null for the device that is assumed
/// without one. Empty where no pair does either, and where the model is too large to search (work.h).
std::vector<SuggestionUnder> suggestions_under(const Model& model, const RunConfig& run, const Gpu* gpu,
                                               const Ceiling& ceiling);

}  // namespace gpuplan
