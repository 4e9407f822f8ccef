// What tensor parallelism does around a linear layer: DTensor's redistributions, as autograd has them, and
// transformers' plain collectives in inference (transformers/distributed/tensor_parallel.py and
// torch/distributed/tensor/parallel/ style.py, ColwiseParallel and RowwiseParallel).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// All of a sample's tokens, of which a rank has some between the layers of sequence parallelism (RunConfig::
/// tensor_plan): [b, s / ranks, h] -> [b, s, h]. The ranks' gradients are summed, and each has those of its tokens.
TensorId gathered_tokens(LayerBuilder& b, TensorId x);

/// The input of a layer that has some of the output features: all of it here, and the ranks' gradients of it are summed
/// (DTensor.from_local's backward).
TensorId shared_input(LayerBuilder& b, TensorId x);

/// The result of a layer as its ranks then have it: summed where each had some of the input features or of the rows, in
/// sequence parallelism of some of the tokens each; gathered along the last dimension where all are to have all of it,
/// else as it is. Throws Error, at the layer's call, for tokens that the ranks do not divide.
TensorId shared_output(LayerBuilder& b, TensorId y);

/// Of indices of rows, those within the rank's part of them, others 0, and which these are (DTensor's _MaskPartial,
/// torch/distributed/tensor/placement_types.py).
struct MaskedRows {
  TensorId mask = kNone, indices = kNone;
};
MaskedRows masked_rows(LayerBuilder& b, TensorId indices);

/// F.embedding of a table of which the rank has some rows, `weight`: other tokens are masked, and shared_output() sums
/// the results (torch/distributed/tensor/_ops/_embedding_ops.py). Its
/// gradient is of all rows and stays a part of the sum.
TensorId shared_embedding(LayerBuilder& b, TensorId weight, TensorId indices);

/// What an embedding that scales its rows computes with: DTensor sums them over the ranks for the product. The result
/// is whole then, of which sequence parallelism keeps the tokens of the rank.
TensorId summed_rows(LayerBuilder& b, TensorId y);
TensorId tokens_of_rank(LayerBuilder& b, TensorId x);

/// Rows [n, h] of which the ranks that share a layer take a part each, and what all of them have of their parts
/// (transformers' AllToAllEP). The tensor itself where no rank shares the layer.
TensorId rows_of_rank(LayerBuilder& b, TensorId x);
TensorId rows_of_ranks(LayerBuilder& b, TensorId x);

/// Of experts (transformers' MoeExpertsParallel, whose collectives are in place): the gradient of what they are given
/// is summed over the ranks, and so is their result. The tensor itself where no rank shares the layer, and where ranks
/// have some of the experts each.
TensorId summed_backward(LayerBuilder& b, TensorId x);
TensorId summed_in_place(LayerBuilder& b, TensorId y);

}  // namespace gpuplan::aten
