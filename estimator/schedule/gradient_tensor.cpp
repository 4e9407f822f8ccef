#include "estimator/schedule/gradient_tensor.h"

#include <algorithm>

namespace gpuplan {

void lay_out(GradientTensor& g, const Shape& shape, const Strides& strides) {
  g.laid_out = true;
  g.strides = strides;
  g.contiguous = is_contiguous(shape, strides);
}

bool dense(const GradientTensor& g, const Shape& shape) { return g.contiguous || is_dense(shape, g.strides); }

Strides permuted(const Strides& strides, const Strides& order, const Shape& shape) {
  Strides out;
  for (int i = 0; i < shape.rank(); ++i) out.set(i, strides[static_cast<int>(order[i])]);
  return out;
}

Strides expanded(const Shape& from, const Strides& strides, const Shape& to) {
  Strides out;
  const int added = to.rank() - from.rank();
  for (int i = std::max(added, 0); i < to.rank(); ++i) out.set(i, from[i - added] == to[i] ? strides[i - added] : 0);
  return out;
}

MemoryFormat format_of(ViewKind kind) {
  return kind == ViewKind::channels_last || kind == ViewKind::to_channels_last ? MemoryFormat::channels_last
                                                                               : MemoryFormat::contiguous;
}

unsigned broadcast_dimensions(const Shape& from, const Shape& to) {
  unsigned mask = 0;
  const int leading = from.rank() - to.rank();
  for (int i = 0; i < from.rank(); ++i)
    if (i < leading || (to[i - leading] == 1 && from[i] != 1)) mask |= 1U << i;
  return mask;
}

bool obeys_layout(const GradientTensor& g, const Tensor& leaf) {
  if (g.contiguous && leaf.contiguous) return true;
  const Strides strides = strides_of(g, leaf.shape);
  for (int i = 0; i < leaf.shape.rank(); ++i)
    if (leaf.shape[i] != 1 && strides[i] != leaf.strides[i]) return false;
  return true;
}

}  // namespace gpuplan
