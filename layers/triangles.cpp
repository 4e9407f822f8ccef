// Triu, Tril: what lies above or below a diagonal of matrices, zeros elsewhere.
//
// tools/autograd/derivatives.yaml: nothing is saved; the gradient is the same part of the incoming one.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers {
namespace {

using Saves = aten::Unary::Saves;

constexpr aten::Unary kUpper{"aten::triu", "", "TriuBackward0", "aten::triu", Saves::nothing, Saves::nothing, 0};
constexpr aten::Unary kLower{"aten::tril", "", "TrilBackward0", "aten::tril", Saves::nothing, Saves::nothing, 0};

template <const aten::Unary& F>
void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.shape(x).rank() < 2)
    b.fail("expects matrices, its input has " + std::to_string(b.shape(x).rank()) + " dimensions");
  b.output(aten::unary(b, x, F, false, {static_cast<double>(b.integer("diagonal"))}));
}

LayerDef part(std::string_view name, std::string_view summary, void (*lowering)(LayerBuilder&), std::string_view call) {
  return {
      .name = name,
      .summary = summary,
      .math = "x [..., m, n] -> the same shape. Saved: nothing.",
      .parameters = {{"diagonal", ParameterType::integer, "0", "how far the diagonal is above the main one"}},
      .indices = true,
      .lower = lowering,
      .example = {
          .call = call, .input_shapes = {{4, 16, 16}}, .output_shape = {4, 16, 16}, .derivation = "nothing is saved"}};
}

const LayerDef kTriu = part("Triu", "x.triu(diagonal)", lower<kUpper>, "Triu(1)");
const LayerDef kTril = part("Tril", "x.tril(diagonal)", lower<kLower>, "Tril()");

const LayerDef* const kLayers[] = {&kTriu, &kTril};

}  // namespace

std::span<const LayerDef* const> triangles_layers() { return kLayers; }

}  // namespace gpuplan::layers
