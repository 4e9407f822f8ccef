// torch.cumsum (aten/src/ATen/native/cuda/ScanKernels.cpp, ScanUtils.cuh), torch.sort (Sort.cpp).
#pragma once

#include <string_view>
#include <vector>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// x.cumsum(dim, dtype), without a type of booleans and integers as int64; x of another type is copied to it after the
/// result is there. One row alone is scanned by the whole device, with scratch. Under autocast in fp32. Backward: flip,
/// cumsum, flip.
TensorId cumsum(LayerBuilder& b, TensorId x, int dim, std::optional<DType> dtype = std::nullopt);

/// x.sort(dim): the values, of x's type, and their int64 indices, both of x's shape. Rows of up to 4096 elements have a
/// row of int64 as scratch; one longer row of int64 alone has that of the radix sort too. Throws Error for other longer
/// rows, whose scratch is not known. Saves the indices; backward scatters into zeros.
std::vector<TensorId> sort(LayerBuilder& b, TensorId x, int dim);

/// The gradient of values that were selected with their indices along `dim`, scattered into zeros of x's shape
/// (torch/csrc/autograd/FunctionsManual.cpp, value_selecting_reduction_backward). name: of the autograd node.
void scatter_gradient(LayerBuilder& b, std::string_view name, TensorId x, TensorId values, TensorId indices, int dim);

}  // namespace gpuplan::aten
