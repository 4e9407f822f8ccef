#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// mask[i] = uniform(seed, i) >= p, y[i] = mask[i] ? x[i] / (1 - p) : 0, i counting row-major.
void dropout(const LaunchContext& context, const KernelTensor& x, const KernelTensor& mask, const KernelTensor& y,
             double p, std::uint64_t seed);

/// out[i] = 1 with probability p, else 0: uniform(seed, i) >= 1 - p, i counting row-major.
void bernoulli(const LaunchContext& context, const KernelTensor& out, double p, std::uint64_t seed);

}  // namespace gpuplan::cuda
