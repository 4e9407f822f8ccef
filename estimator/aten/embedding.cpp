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

void expect_learned_positions(const LayerBuilder& b, std::string_view argument, std::int64_t rows,
                              std::int64_t tokens) {
  const Generation& g = b.run().generation;
  const std::int64_t last =
      g.part == Generation::Part::none ? tokens : g.tokens() - 1;  // what is made last is not read
  if (last > rows)
    b.fail(argument, "a sequence of " + std::to_string(last) + " tokens has no position for all of them",
           std::to_string(rows) + " are learned: a shorter --seq will do");
}

}  // namespace gpuplan::aten
