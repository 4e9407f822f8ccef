// torch's functions that move no data unless strides force them to, as its Python code calls them: each appends to the
// graph what runs and the autograd node. All throw Error at the layer's call where PyTorch refuses.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// From this release on x[:, :] of a whole dimension is x itself; before, a slice, whose backward copies. Seen in 2.8
/// and not in 2.15.
constexpr PyTorchVersion kElidesFullSlices = 209;

/// x.view(shape). Refuses where the strides allow no view.
TensorId view(LayerBuilder& b, TensorId x, const Shape& shape);
/// x.reshape(shape): a view, or clone and _unsafe_view (aten/src/ATen/native/TensorShape.cpp). _reshape_alias
/// before 2.0.
TensorId reshape(LayerBuilder& b, TensorId x, const Shape& shape);
/// x.flatten(from, to), both within the rank.
TensorId flatten(LayerBuilder& b, TensorId x, int from, int to);
/// x.contiguous(): itself or a copy.
TensorId contiguous(LayerBuilder& b, TensorId x, MemoryFormat format = MemoryFormat::contiguous);
TensorId clone(LayerBuilder& b, TensorId x);

/// Dimension i of the result is dimension order[i] of x.
TensorId permute(LayerBuilder& b, TensorId x, std::span<const int> order);
TensorId permute(LayerBuilder& b, TensorId x, std::initializer_list<int> order);
/// Swaps two dimensions, negative ones counted from the end.
TensorId transpose(LayerBuilder& b, TensorId x, int first, int second);
TensorId unsqueeze(LayerBuilder& b, TensorId x, int dim);
TensorId squeeze(LayerBuilder& b, TensorId x, int dim);
/// Repeats along dimensions of size 1 and new ones in front, without memory.
TensorId expand(LayerBuilder& b, TensorId x, const Shape& shape);
/// `length` positions of a dimension, every `step`th one from `start` on. Backward: zeros of the size of x, with the
/// gradient copied into them.
TensorId slice(LayerBuilder& b, TensorId x, int dim, std::int64_t start, std::int64_t length, std::int64_t step = 1);
/// x.select(dim, at): one position, counted from the front; the dimension is gone.
TensorId select(LayerBuilder& b, TensorId x, int dim, std::int64_t at);
/// Parts of the sizes given; views with one node, whose backward concatenates. `node`: SplitBackward0 or
/// SplitWithSizesBackward0.
std::vector<TensorId> split(LayerBuilder& b, TensorId x, int dim, std::span<const std::int64_t> sizes,
                            std::string_view node);
/// x.unbind(dim): a view for each position; backward stacks the gradients.
std::vector<TensorId> unbind(LayerBuilder& b, TensorId x, int dim);

/// torch.cat along `dim` (within the rank): one copy of the widest type. of_empty: the type of an empty tensor that is
/// joined too.
TensorId cat(LayerBuilder& b, std::span<const TensorId> xs, int dim, std::optional<DType> of_empty = {});
/// torch.stack: a new dimension.
TensorId stack(LayerBuilder& b, std::span<const TensorId> xs, int dim);

}  // namespace gpuplan::aten
