// Pointwise activations.
//
// What each saves (tools/autograd/derivatives.yaml): relu, sigmoid and tanh their result; the others their input. In
// place: relu, leaky_relu and elu use the result, so nothing extra is kept; the ones whose formula needs
// the input make autograd clone it first, which saves no memory in training. Backward allocates one gradient.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::activations {
namespace {

template <const aten::Unary& F>
void with_in_place(LayerBuilder& b) {
  b.output(aten::unary(b, b.input(), F, b.boolean("inplace")));
}
void relu6(LayerBuilder& b) {
  b.output(aten::unary(b, b.input(), aten::kHardtanh, b.boolean("inplace"),
                       {{Attribute::min_val, 0}, {Attribute::max_val, 6}}));
}
void hardtanh(LayerBuilder& b) {
  if (b.real("max_val") <= b.real("min_val")) b.fail("max_val", "max_val must be larger than min_val");
  b.output(aten::unary(b, b.input(), aten::kHardtanh, b.boolean("inplace"),
                       {{Attribute::min_val, b.real("min_val")}, {Attribute::max_val, b.real("max_val")}}));
}
void leaky_relu(LayerBuilder& b) {
  b.output(aten::unary(b, b.input(), aten::kLeakyRelu, b.boolean("inplace"),
                       {{Attribute::negative_slope, b.real("negative_slope")}}));
}
void elu(LayerBuilder& b) {
  const bool in_place = b.boolean("inplace");
  b.output(aten::unary(b, b.input(), aten::kElu, in_place, {{Attribute::alpha, b.real("alpha")}},
                       {{Attribute::is_result, in_place}}));
}
// Both are elu(x, alpha, scale, input_scale), whose node they have (aten/src/ATen/native/Activation.cpp). No device
// runs them yet, so the scales are not among their attributes.
constexpr aten::Unary kSelu{Operator::selu,         Operator::selu_,           "EluBackward0",
                            Operator::elu_backward, aten::Unary::Saves::input, aten::Unary::Saves::result};
constexpr aten::Unary kCelu{Operator::celu,         Operator::celu_,           "EluBackward0",
                            Operator::elu_backward, aten::Unary::Saves::input, aten::Unary::Saves::result};
void selu(LayerBuilder& b) {
  const bool in_place = b.boolean("inplace");
  b.output(aten::unary(b, b.input(), kSelu, in_place, {{Attribute::alpha, 1.6732632423543772}},
                       {{Attribute::is_result, in_place}}));
}
void celu(LayerBuilder& b) {
  if (b.real("alpha") == 0) b.fail("alpha", "alpha must not be zero");
  const bool in_place = b.boolean("inplace");
  b.output(aten::unary(b, b.input(), kCelu, in_place, {{Attribute::alpha, b.real("alpha")}},
                       {{Attribute::is_result, in_place}}));
}
void gelu(LayerBuilder& b) {
  b.output(aten::unary(b, b.input(), aten::kGelu, false, {{Attribute::approximate, b.word("approximate") == "tanh"}}));
}

const ParameterDef kInPlace{"inplace", ParameterType::boolean, "False", "writes into its input"};

LayerDef activation(std::string_view name, std::string_view summary, std::string_view math,
                    std::vector<ParameterDef> parameters, void (*lowering)(LayerBuilder&), std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = math,
          .parameters = std::move(parameters),
          .lower = lowering,
          .example = {.call = call,
                      .input_shapes = {{2, 8, 4, 4}},
                      .saved_bytes = 1024,
                      .derivation = "one tensor of 2*8*4*4*4 bytes is saved, the input or the result"}};
}

const LayerDef kLayers[] = {
    activation("ReLU", "max(x, 0)", "y = max(x, 0). Saves its result, in place too: usually the next layer's input.",
               {kInPlace}, with_in_place<aten::kRelu>, "ReLU()"),
    activation("ReLU6", "min(max(x, 0), 6)", "hardtanh on [0, 6]. Saves its input; in place a clone of it.", {kInPlace},
               relu6, "ReLU6()"),
    activation("Hardtanh", "x, cut to a range", "Saves its input; in place a clone of it.",
               {{"min_val", ParameterType::real, "-1.0", "smallest value"},
                {"max_val", ParameterType::real, "1.0", "largest value"},
                kInPlace},
               hardtanh, "Hardtanh()"),
    activation("LeakyReLU", "x or slope * x", "Saves its input; in place its result.",
               {{"negative_slope", ParameterType::real, "0.01", "slope for x < 0"}, kInPlace}, leaky_relu,
               "LeakyReLU()"),
    activation("ELU", "x or alpha (e^x - 1)", "Saves its input; in place its result.",
               {{"alpha", ParameterType::real, "1.0", "scale for x < 0"}, kInPlace}, elu, "ELU()"),
    activation("SELU", "scale * (x or alpha (e^x - 1))", "Saves its input; in place its result.", {kInPlace}, selu,
               "SELU()"),
    activation("CELU", "x or alpha (e^(x / alpha) - 1)", "Saves its input; in place its result.",
               {{"alpha", ParameterType::real, "1.0", "scale for x < 0"}, kInPlace}, celu, "CELU()"),
    activation("Sigmoid", "1 / (1 + e^-x)", "Saves its result.", {kInPlace}, with_in_place<aten::kSigmoid>,
               "Sigmoid()"),
    activation("Tanh", "tanh x", "Saves its result.", {kInPlace}, with_in_place<aten::kTanh>, "Tanh()"),
    activation("GELU", "x Phi(x)", "Saves its input.", {{"approximate", ParameterType::word, "none", "none or tanh"}},
               gelu, "GELU()"),
    activation("SiLU", "x sigmoid(x)", "Saves its input; in place a clone of it.", {kInPlace},
               with_in_place<aten::kSilu>, "SiLU()"),
    activation("Hardswish", "x relu6(x + 3) / 6", "Saves its input; in place a clone of it.", {kInPlace},
               with_in_place<aten::kHardswish>, "Hardswish()"),
    activation("Hardsigmoid", "relu6(x + 3) / 6", "Saves its input; in place a clone of it.", {kInPlace},
               with_in_place<aten::kHardsigmoid>, "Hardsigmoid()"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::activations
