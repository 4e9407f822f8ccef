// Warnings about plans that are correct but may not be what the user intended.
#pragma once

#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Whether the spec has no loss, in whose place one is taken: a call that nobody wrote anywhere.
bool assumes_loss(const Model& model);

/// Sentences without an end, none where all is as usual. `named_gpu` is null where none was named.
std::vector<std::string> warnings_about(const Model& model, const Graph& graph, const RunConfig& run,
                                        const Gpu* named_gpu);

}  // namespace gpuplan
