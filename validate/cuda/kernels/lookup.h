// Rows and elements found by indices.
#pragma once

#include "validate/cuda/kernels/launch.h"
#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

/// out[..., :] = table[indices[...], :]; indices and out row-major.
void embedding(const LaunchContext& context, const KernelTensor& table, const KernelTensor& indices,
               const KernelTensor& out);
/// out[v, :] = the sum of grad[i, :] over the indices i that are v, in their order, and of what out[v, :] was where it
/// `adds`. All row-major.
void embedding_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& indices,
                        const KernelTensor& out, bool adds = false);
/// out[..., i, ...] = table[..., index[..., i, ...], ...].
void gather(const LaunchContext& context, const KernelTensor& table, const KernelTensor& index, const KernelTensor& out,
            int dimension);
/// table[..., index[..., i, ...], ...] = values[..., i, ...], or += in the order of i.
void scatter(const LaunchContext& context, const KernelTensor& values, const KernelTensor& index,
             const KernelTensor& table, int dimension, bool adds);
/// out[...] = table[rows[...], columns[...]], the indices broadcast to out's leading dimensions; what follows them in
/// the table follows them in out.
void index(const LaunchContext& context, const KernelTensor& table, const KernelTensor& rows,
           const KernelTensor& columns, const KernelTensor& out);

}  // namespace gpuplan::cuda
