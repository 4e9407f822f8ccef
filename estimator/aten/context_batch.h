// The batch of a rank of context parallelism, as a training loop has torch's context_parallel() cut it in place
// (torch/distributed/tensor/experimental/_context_parallel).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// Tokens [samples, those of all ranks] copied for the step, once more as labels, the labels shifted, and positions
/// counted, as transformers' Trainer gives them (_prepare_context_parallel_inputs); then each cut to the rank's tokens.
/// What is cut keeps the storage of what it was, and lives as long as what the model returns. The first of them is
/// returned, the others are LayerBuilder::context().
TensorId cut_batch(LayerBuilder& b, TensorId tokens);

}  // namespace gpuplan::aten
