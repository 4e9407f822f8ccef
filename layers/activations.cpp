// Pointwise activations.
//
// What each saves (tools/autograd/derivatives.yaml): relu, sigmoid and tanh their result; the others their input. In
// place: relu, leaky_relu and elu use the result, so nothing extra is kept; the ones whose formula needs
// the input make autograd clone it first, which saves no memory in training. Backward allocates one gradient.

#include "estimator/graph/layer.h"

namespace gpuplan::layers {
namespace {

enum class Saves : std::uint8_t { result, input };

struct Activation {
  std::string_view op, op_in_place, node, backward;
  Saves saves;           // out of place
  Saves saves_in_place;  // result: no clone
  int flops;
};

void lower(LayerBuilder& b, const Activation& a, bool in_place) {
  const TensorId x = b.input();
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements(), a.flops};
  TensorId kept = x;
  TensorId y = kNone;
  if (in_place) {
    if (b.requires_grad(x) && a.saves_in_place == Saves::input)
      kept = b.emit("aten::clone", Copy{shape.elements()}, {x}, shape, dtype);
    y = b.emit_in_place(a.op_in_place, work, {x});
  } else {
    y = b.emit(a.op, work, {x}, shape, dtype);
  }
  const bool keeps_result = (in_place ? a.saves_in_place : a.saves) == Saves::result;
  if (NodeBuilder node = b.node(a.node, y, {x}))
    node.give(x, node.run(a.backward, work, {node.grad(), keeps_result ? y : kept}, shape, dtype));
  b.output(y);
}

constexpr Activation kRelu{
    "aten::relu", "aten::relu_", "ReluBackward0", "aten::threshold_backward", Saves::result, Saves::result, 1};
constexpr Activation kHardtanh{
    "aten::hardtanh", "aten::hardtanh_", "HardtanhBackward0", "aten::hardtanh_backward", Saves::input, Saves::input, 2};
constexpr Activation kLeaky{"aten::leaky_relu",
                            "aten::leaky_relu_",
                            "LeakyReluBackward0",
                            "aten::leaky_relu_backward",
                            Saves::input,
                            Saves::result,
                            2};
constexpr Activation kElu{
    "aten::elu", "aten::elu_", "EluBackward0", "aten::elu_backward", Saves::input, Saves::result, 3};
constexpr Activation kSigmoid{"aten::sigmoid", "", "SigmoidBackward0", "aten::sigmoid_backward", Saves::result,
                              Saves::result,   4};
constexpr Activation kTanh{"aten::tanh", "", "TanhBackward0", "aten::tanh_backward", Saves::result, Saves::result, 5};
constexpr Activation kGelu{"aten::gelu", "", "GeluBackward0", "aten::gelu_backward", Saves::input, Saves::input, 8};
constexpr Activation kSilu{
    "aten::silu", "aten::silu_", "SiluBackward0", "aten::silu_backward", Saves::input, Saves::input, 5};
constexpr Activation kHardswish{"aten::hardswish",
                                "aten::hardswish_",
                                "HardswishBackward0",
                                "aten::hardswish_backward",
                                Saves::input,
                                Saves::input,
                                4};
constexpr Activation kHardsigmoid{"aten::hardsigmoid",
                                  "aten::hardsigmoid_",
                                  "HardsigmoidBackward0",
                                  "aten::hardsigmoid_backward",
                                  Saves::input,
                                  Saves::input,
                                  3};

template <const Activation& A>
void with_in_place(LayerBuilder& b) {
  lower(b, A, b.boolean("inplace"));
}
template <const Activation& A>
void out_of_place(LayerBuilder& b) {
  lower(b, A, false);
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
                      .output_shape = {2, 8, 4, 4},
                      .saved_bytes = 1024,
                      .derivation = "one tensor of 2*8*4*4*4 bytes is saved, the input or the result"}};
}

const LayerDef kDefs[] = {
    activation("ReLU", "max(x, 0)", "y = max(x, 0). Saves its result, in place too: usually the next layer's input.",
               {kInPlace}, with_in_place<kRelu>, "ReLU()"),
    activation("ReLU6", "min(max(x, 0), 6)", "hardtanh on [0, 6]. Saves its input; in place a clone of it.", {kInPlace},
               with_in_place<kHardtanh>, "ReLU6()"),
    activation("LeakyReLU", "x or slope * x", "Saves its input; in place its result.",
               {{"negative_slope", ParameterType::real, "0.01", "slope for x < 0"}, kInPlace}, with_in_place<kLeaky>,
               "LeakyReLU()"),
    activation("ELU", "x or alpha (e^x - 1)", "Saves its input; in place its result.",
               {{"alpha", ParameterType::real, "1.0", "scale for x < 0"}, kInPlace}, with_in_place<kElu>, "ELU()"),
    activation("Sigmoid", "1 / (1 + e^-x)", "Saves its result.", {}, out_of_place<kSigmoid>, "Sigmoid()"),
    activation("Tanh", "tanh x", "Saves its result.", {}, out_of_place<kTanh>, "Tanh()"),
    activation("GELU", "x Phi(x)", "Saves its input.", {{"approximate", ParameterType::word, "none", "none or tanh"}},
               out_of_place<kGelu>, "GELU()"),
    activation("SiLU", "x sigmoid(x)", "Saves its input; in place a clone of it.", {kInPlace}, with_in_place<kSilu>,
               "SiLU()"),
    activation("Hardswish", "x relu6(x + 3) / 6", "Saves its input; in place a clone of it.", {kInPlace},
               with_in_place<kHardswish>, "Hardswish()"),
    activation("Hardsigmoid", "relu6(x + 3) / 6", "Saves its input; in place a clone of it.", {kInPlace},
               with_in_place<kHardsigmoid>, "Hardsigmoid()"),
};

const LayerDef* const kLayers[] = {&kDefs[0], &kDefs[1], &kDefs[2], &kDefs[3], &kDefs[4],
                                   &kDefs[5], &kDefs[6], &kDefs[7], &kDefs[8], &kDefs[9]};

}  // namespace

std::span<const LayerDef* const> activations_layers() { return kLayers; }

}  // namespace gpuplan::layers
