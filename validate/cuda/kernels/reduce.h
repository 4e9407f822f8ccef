// Sums, in the same order whatever else runs.
#pragma once

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

enum class Reducing { sum, all, any };

/// out = scale * the sum of `in` over the dimensions whose bit is set, computed in fp32 or fp64. `out` has the other
/// dimensions in their order, with or without those of size 1 that were reduced.
void reduce(const LaunchContext& context, Reducing what, const KernelTensor& in, const KernelTensor& out,
            unsigned dimensions, double scale = 1);

}  // namespace gpuplan::cuda
