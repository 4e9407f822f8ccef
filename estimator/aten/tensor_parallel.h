// What transformers' tensor parallelism does around a linear layer: DTensor's redistributions, as autograd has them,
// and plain collectives in inference (transformers/distributed/tensor_parallel.py, ColwiseParallel and
// RowwiseParallel).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// The input of a layer that has some of the output features: all of it here, and the ranks' gradients of it are summed
/// (DTensor.from_local's backward).
TensorId shared_input(LayerBuilder& b, TensorId x);

/// The result of a layer as its ranks then have it: summed where each had some of the input features or of the rows,
/// gathered along the last dimension where all are to have all of it, else as it is.
TensorId shared_output(LayerBuilder& b, TensorId y);

/// F.embedding of a table of which the rank has some rows, `weight`: other tokens are masked, and shared_output() sums
/// the results (DTensor's _MaskPartial, torch/distributed/tensor/placement_types.py and _ops/_embedding_ops.py). Its
/// gradient is of all rows and stays a part of the sum.
TensorId shared_embedding(LayerBuilder& b, TensorId weight, TensorId indices);

/// Of experts (transformers' MoeExpertsParallel, whose collectives are in place): the gradient of what they are given
/// is summed over the ranks, and so is their result. The tensor itself where no rank shares the layer.
TensorId summed_backward(LayerBuilder& b, TensorId x);
TensorId summed_in_place(LayerBuilder& b, TensorId y);

}  // namespace gpuplan::aten
