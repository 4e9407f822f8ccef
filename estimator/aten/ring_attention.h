// Attention of a rank that has some of the tokens (torch/distributed/tensor/experimental/_context_parallel/
// _attention.py, _templated_ring_attention and its backward): keys and values of all ranks come by one all-gather, each
// rank's are attended to by a call of the kernel of its own, and results are merged in fp32.
#pragma once

#include "estimator/aten/attention.h"

namespace gpuplan::aten {

/// Of RunConfig::context_ranks, causal. Throws Error for what PyTorch refuses: masks, and kernels other than the fused
/// ones.
TensorId ring_attention(LayerBuilder& b, const AttentionArguments& arguments);

}  // namespace gpuplan::aten
