// Attention of half types on tensor cores, for those who launch attention.
#pragma once

#include "validate/cuda/kernels/launch.h"

namespace gpuplan::cuda {

struct AttentionCall;

/// Whether all tensors that go through fragments are of one type that this GPU multiplies.
bool attends_by_fragments(const LaunchContext& context, const AttentionCall& call);

void attention_by_fragments(const LaunchContext& context, const AttentionCall& call);
/// call.row_sums are there.
void attention_backward_by_fragments(const LaunchContext& context, const AttentionCall& call);

}  // namespace gpuplan::cuda
