// Model -> Graph: runs the expanded spec in the order in which Python would, and lowers each layer for its input
// shapes.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/graph/layer.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Throws Error, with the place in the spec, for a layer the catalog does not have, wrong arguments, shapes that do
/// not fit, a batch below 1 or a size that overflows. Marks in the graph point into model.sources.
/// `wrapped`: the blocks that Graph::wrapped lists, chosen as checkpoints are.
Graph build_graph(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                  const CheckpointConfig* wrapped = nullptr);

}  // namespace gpuplan
