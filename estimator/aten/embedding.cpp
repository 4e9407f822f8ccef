#include "estimator/aten/embedding.h"

#include <vector>

namespace gpuplan::aten {

TensorId embedding(LayerBuilder& b, TensorId weight, TensorId indices) {
  const Shape at = b.shape(indices);
  const Shape table = b.shape(weight);
  const DType dtype = b.dtype(weight);
  Shape out = at;
  out.push_back(table[1]);
  Lookup lookup{.indices = at.elements(), .vocabulary = table[0], .features = table[1], .dtype = dtype};
  const bool flat = view_strides(at, b.strides(indices), {at.elements()}).has_value();
  TensorId rows = indices;
  if (!flat) rows = b.emit("aten::clone", Copy{at.elements()}, {indices}, at, b.dtype(indices));
  const TensorId y = b.emit("aten::embedding", lookup, {weight, rows}, out, dtype);
  if (NodeBuilder node = b.node("EmbeddingBackward0", y, {weight})) {
    lookup.backward = true;
    Operand index = indices;
    if (!b.contiguous(indices)) index = node.run("aten::clone", Copy{at.elements()}, {indices}, at, b.dtype(indices));
    node.give(weight,
              node.run("aten::embedding_dense_backward", lookup, {node.contiguous(node.grad()), index}, table, dtype));
  }
  return y;
}

}  // namespace gpuplan::aten
