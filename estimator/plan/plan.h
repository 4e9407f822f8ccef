// The table of contents: one call from a model to the numbers.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/graph/layer.h"
#include "estimator/plan/report.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Plans one step (or an inference) of `model`. `gpu` == nullptr: an A100-class device is assumed, and said in the
/// warnings. Throws Error for a model or run that PyTorch would refuse, with the place in the spec.
Report plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu = nullptr);

}  // namespace gpuplan
