// What a mixture of experts is routed with: the best of each row, sorted numbers, counts; and a product for each
// expert.
#pragma once

#include <cstdint>

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// Of each row of x [rows, width] the greatest, as many as `values` has columns, in falling order, and where they
/// stand; the first of equals first. All row-major.
void top_k(const LaunchContext& context, const KernelTensor& x, const KernelTensor& values, const KernelTensor& places);
/// x [n] in rising order, and where each number stood; equals keep their order.
void sort(const LaunchContext& context, const KernelTensor& x, const KernelTensor& values, const KernelTensor& places);
/// counts[b] = how many numbers of x are in bin b of [least, most], which the bins divide evenly.
void count_bins(const LaunchContext& context, const KernelTensor& x, const KernelTensor& counts, double least,
                double most);

enum class GroupedPass : std::uint8_t { forward, of_input, of_weight };

/// Rows up to ends[e] are expert e's. forward: y = x w^T; of_input: dx = grad w; of_weight: dw[e] = grad^T x.
/// `weight` [experts, n, m] (or its gradient), `wide` [rows, n], `deep` [rows, m], all row-major: which of them is
/// written the pass says.
void grouped_product(const LaunchContext& context, GroupedPass pass, const KernelTensor& wide, const KernelTensor& deep,
                     const KernelTensor& weight, const KernelTensor& ends);

}  // namespace gpuplan::cuda
