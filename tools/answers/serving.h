// Starts of an engine: the one that was asked for, and the flags that make it start.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"
#include "estimator/spec/model.h"
#include "tools/options/run_options.h"

namespace gpuplan {

/// A model, and the form of weights that its config.json says they are published in.
struct PublishedModel {
  Model model;
  WeightForm weights = WeightForm::plain;
};
/// Throws Error, also for weights in a form that no engine's start is known of.
PublishedModel published_model(const RunOptions& options);

/// The decoder that `model` is, as engines serve it. Throws Error where it is none.
ServedModel decoder_of(const Model& model, const Gpu& gpu);

/// The start, and where it fails, hints that were tried.
EngineStart tried_start(const ServedModel& model, const Gpu& gpu, const ServeSettings& settings);

}  // namespace gpuplan
