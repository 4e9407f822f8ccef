// A gradient passed between two autograd nodes: its storage and its layout.
#pragma once

#include "estimator/graph/graph.h"

namespace gpuplan {

/// In the input buffer of a node, or waiting for a leaf's other contributions.
struct GradientTensor {
  BufferId buffer = kNone;
  bool view = false;
  bool contiguous = true;
  bool laid_out = false;  // with these strides, else row-major
  Strides strides = {};
  std::int64_t offset = 0;  // elements from the beginning of the storage
};

inline Strides strides_of(const GradientTensor& g, const Shape& shape) {
  return g.laid_out ? g.strides : contiguous_strides(shape);
}
void lay_out(GradientTensor& g, const Shape& shape, const Strides& strides);
bool dense(const GradientTensor& g, const Shape& shape);

/// Of a permuted view of this shape; dimension i is dimension order[i] of the value.
Strides permuted(const Strides& strides, const Strides& order, const Shape& shape);
/// Of an expanded one: dimensions are matched from the last one, those that are repeated step by 0.
Strides expanded(const Shape& from, const Strides& strides, const Shape& to);
/// The format that a copying view is made in.
MemoryFormat format_of(ViewKind kind);
/// The dimensions that a gradient of shape `from` is summed over to become one of shape `to`, bit i for dimension i.
unsigned broadcast_dimensions(const Shape& from, const Shape& to);
/// Whether a parameter can take the gradient as it is: the strides are its own; dimensions of size 1 do not count
/// (torch/csrc/autograd/utils/grad_layout_contract.h).
bool obeys_layout(const GradientTensor& g, const Tensor& leaf);

}  // namespace gpuplan
