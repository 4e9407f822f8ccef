// A model of which each rank of context parallelism has some of the tokens.
#pragma once

#include <cstdint>

#include "estimator/distributed/strategy.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// The model's `seq`, as a rank has it. Throws Error (usage) for a model without one, for lengths that the ranks do not
/// divide, and for what Accelerate refuses: layers that attend to a window.
Variable context_variable(const Model& model, std::int64_t ranks);

/// Throws Error (usage) for what context parallelism was not compared with.
void refuse_context(const RunConfig& run, const Strategy& strategy);

}  // namespace gpuplan
