// Parts of a tensor by tensors of indices, and parts of a tensor that are written in place, as torch's Python code asks
// for them. Checked against allocations of PyTorch 2.15 and 2.8 (tests/torch/export_operators.py).
#pragma once

#include <span>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// x[:, i, j] of int64 indices for neighbouring dimensions from `dim` on, broadcast to each other. Saves the indices.
/// Backward: index_put with accumulation into zeros. `of_host`: they are copies of tensors of the host's, which
/// autograd saves instead. Throws Error at the layer's call where the indices do not fit.
TensorId index(LayerBuilder& b, TensorId x, std::span<const TensorId> indices, int dim, bool of_host = false);

/// A box within a tensor: `start` and `size` of every dimension.
struct Part {
  Shape start, size;
};

enum class PartChange : std::uint8_t { copy, fill, add, sub };

/// x[part] = value, x[part] += value: writes into a part of x, in place. `value` is kNone where it is a number. With a
/// gradient autograd replaces x's history by a node that copies the gradient around the part
/// (torch/csrc/autograd/functions/tensor.cpp, CopySlices::apply_impl).
TensorId change_part(LayerBuilder& b, PartChange change, TensorId x, const Part& part, TensorId value, double number);

}  // namespace gpuplan::aten
