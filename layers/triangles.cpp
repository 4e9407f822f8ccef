// Triu, Tril: what lies above or below a diagonal of matrices, zeros elsewhere.
//
// tools/autograd/derivatives.yaml: nothing is saved; the gradient is the same part of the incoming one. Both are
// row-major, however their input lies (aten/src/ATen/native/TriangularOps.cpp).

#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::layers::triangles {
namespace {

struct Part {
  Operator op;
  std::string_view node;
};
constexpr Part kUpper{Operator::triu, "TriuBackward0"}, kLower{Operator::tril, "TrilBackward0"};

template <const Part& F>
void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.shape(x).rank() < 2)
    b.fail("expects matrices, its input has " + std::to_string(b.shape(x).rank()) + " dimensions");
  const Elementwise each{b.elements(x), 0};
  const OutputSpec result{b.shape(x), b.dtype(x), Placing::contiguous};
  const std::int64_t diagonal = b.integer("diagonal");
  const TensorId y = b.emit(F.op, each, {x}, result);
  b.attributes({{Attribute::diagonal, diagonal}});
  if (NodeBuilder node = b.node(F.node, y, {x})) {
    node.give(x, node.run(F.op, each, {node.grad()}, result));
    node.attributes({{Attribute::diagonal, diagonal}});
  }
  b.output(y);
}

LayerDef part(std::string_view name, std::string_view summary, void (*lowering)(LayerBuilder&), std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = "x [..., m, n] -> the same shape. Saved: nothing.",
          .parameters = {{"diagonal", ParameterType::integer, "0", "how far the diagonal is above the main one"}},
          .indices = true,
          .lower = lowering,
          .example = {.call = call, .input_shapes = {{4, 16, 16}}, .derivation = "nothing is saved"}};
}

const LayerDef kLayers[] = {
    part("Triu", "x.triu(diagonal)", lower<kUpper>, "Triu(1)"),
    part("Tril", "x.tril(diagonal)", lower<kLower>, "Tril()"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::triangles
