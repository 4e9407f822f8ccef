#include "estimator/aten/embedding.h"

#include <vector>

#include "estimator/aten/transformers.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::aten {
namespace {

bool is_made_to_want_gradient(LayerBuilder& b, TensorId indices) {
  const auto kind = b.run().checkpoint.kind;
  if (b.run().wraps_blocks) return false;
  const bool asked = kind != CheckpointConfig::Kind::as_written && kind != CheckpointConfig::Kind::none;
  return asked && b.training() && !b.before(kTransformers5) && b.is_view_of(indices, ModelBuilder(b).input(0));
}

}  // namespace

void want_gradient_of_tokens(LayerBuilder& b, TensorId embedded, TensorId indices) {
  if (!b.requires_grad(embedded) && is_made_to_want_gradient(b, indices)) ModelBuilder(b).require_gradient(embedded);
}

TensorId embedding(LayerBuilder& b, TensorId weight, TensorId indices) {
  const Shape at = b.shape(indices);
  const Shape table = b.shape(weight);
  const DType dtype = b.dtype(weight);
  Shape out = at;
  out.push_back(table[1]);
  Lookup lookup{.indices = at.elements(), .vocabulary = table[0], .features = table[1], .dtype = dtype};
  const bool flat = view_strides(at, b.strides(indices), {at.elements()}).has_value();
  TensorId rows = indices;
  if (!flat) rows = b.emit(Operator::clone, Copy{at.elements()}, {indices}, at, b.dtype(indices));
  const TensorId y = b.emit(Operator::embedding, lookup, {weight, rows}, out, dtype);
  if (NodeBuilder node = b.node("EmbeddingBackward0", y, {weight})) {
    lookup.backward = true;
    Operand index = indices;
    if (!b.contiguous(indices)) index = node.run(Operator::clone, Copy{at.elements()}, {indices}, at, b.dtype(indices));
    node.give(weight, node.run(Operator::embedding_dense_backward, lookup, {node.contiguous(node.grad()), index}, table,
                               dtype));
  }
  return y;
}

void expect_learned_positions(const LayerBuilder& b, std::string_view argument, std::int64_t rows,
                              std::int64_t tokens) {
  const Generation& g = b.run().generation;
  const std::int64_t last =
      g.part == Generation::Part::none ? tokens : g.tokens() - 1;  // what is made last is not read
  if (last > rows)
    b.fail(argument,
           "a sequence of " + std::to_string(last) + " tokens is longer than the " + std::to_string(rows) +
               " position embeddings of this model",
           "use --seq " + std::to_string(rows) + " or less");
}

}  // namespace gpuplan::aten
