// How transformers makes a model whose weights bitsandbytes stores: from_pretrained() of a checkpoint onto the GPU.
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Writes Graph::model_storage and Graph::initialization: weight by weight in the order of their names in the
/// checkpoint, each quantized as soon as it is there (transformers 5.23, core_model_loading.py), then what peft's
/// prepare_model_for_kbit_training() casts to fp32, then the adapters.
void construct_by_loading(Graph& graph, const RunConfig& run, const Gpu& gpu);

}  // namespace gpuplan
