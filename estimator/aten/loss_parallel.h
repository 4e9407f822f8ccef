// F.cross_entropy of logits whose vocabulary the ranks of tensor parallelism share, under loss_parallel()
// (torch/distributed/tensor/parallel/loss.py).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// Of [N, V / ranks] in fp32, and int64 targets [N] of all V: the mean, the same on each rank. Saves the
/// log-probabilities, the targets and the total weight. The largest logits, the sums and the targets' log-probabilities
/// are summed over the ranks; backward needs none of them.
TensorId cross_entropy_of_ranks(LayerBuilder& b, TensorId x, TensorId target);

}  // namespace gpuplan::aten
