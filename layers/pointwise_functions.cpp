// Exp, Log, Sqrt, Abs, Neg, Reciprocal, RSub, Sin, Cos, Erf, LogSigmoid, Softplus, Mish: functions of every element
// that models write without a module.
//
// Formulas per tools/autograd/derivatives.yaml. exp, sqrt and reciprocal save their result, neg and rsub nothing, the
// others their input. Each factor of a gradient of two steps is a tensor that lives until the gradient is there. Under
// autocast exp, log, reciprocal and softplus compute in fp32 (aten/src/ATen/autocast_mode.h).

#include <numbers>

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::pointwise_functions {
namespace {

using Saves = aten::Unary::Saves;

constexpr aten::Unary kLog{Operator::log, Operator::log_, "LogBackward0", Operator::div, Saves::input, Saves::input};
constexpr aten::Unary kSoftplus{Operator::softplus,          Operator::softplus, "SoftplusBackward0",
                                Operator::softplus_backward, Saves::input,       Saves::input};
constexpr aten::Unary kLogSigmoid{Operator::log_sigmoid,          Operator::log_sigmoid, "LogSigmoidBackward0",
                                  Operator::log_sigmoid_backward, Saves::input,          Saves::input};
constexpr aten::Unary kMish{Operator::mish,          Operator::mish_, "MishBackward0",
                            Operator::mish_backward, Saves::input,    Saves::input};

template <const aten::Unary& F>
void plain(LayerBuilder& b) {
  b.output(aten::unary(b, b.input(), F, b.boolean("inplace")));
}
template <const aten::Unary& F>
void in_fp32(LayerBuilder& b) {
  b.output(aten::unary(b, b.autocast_fp32(b.input()), F, b.boolean("inplace")));
}
void log_sigmoid(LayerBuilder& b) { b.output(aten::unary(b, b.input(), kLogSigmoid)); }
void softplus(LayerBuilder& b) {
  b.output(aten::unary(b, b.autocast_fp32(b.input()), kSoftplus, false,
                       {{Attribute::beta, b.real("beta")}, {Attribute::threshold, b.real("threshold")}}));
}

// A function whose gradient is a product, or a quotient, of the incoming one and a factor that is computed first.
struct Slope {
  Operator op;
  std::string_view node;
  Operator factor, last;
  bool of_result = false;  // what is saved: the result, or the input
};

void with_slope(LayerBuilder& b, TensorId x, const Slope& f) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const TensorId y = b.emit(f.op, each, {x}, shape, dtype);
  if (NodeBuilder node = b.node(f.node, y, {x})) {
    const Operand factor = node.run(f.factor, each, {f.of_result ? y : x}, shape, dtype);
    if (f.of_result) node.attributes({{Attribute::other, 2}});
    node.give(x, node.run(f.last, each, {node.grad(), factor}, shape, dtype));
    node.hold({factor});
  }
  b.output(y);
}

void square_root(LayerBuilder& b) {
  with_slope(b, b.input(), {Operator::sqrt, "SqrtBackward0", Operator::mul, Operator::div, true});
}
void absolute(LayerBuilder& b) {
  with_slope(b, b.input(), {Operator::abs, "AbsBackward0", Operator::sgn, Operator::mul});
}
void sine(LayerBuilder& b) { with_slope(b, b.input(), {Operator::sin, "SinBackward0", Operator::cos, Operator::mul}); }

// Gradients of two factors: grad * -sin(x), and -grad * y^2.
void cosine(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const TensorId y = b.emit(Operator::cos, each, {x}, shape, dtype);
  if (NodeBuilder node = b.node("CosBackward0", y, {x})) {
    const Operand sin = node.run(Operator::sin, each, {x}, shape, dtype);
    const Operand minus = node.run(Operator::neg, each, {sin}, shape, dtype);
    node.give(x, node.run(Operator::mul, each, {node.grad(), minus}, shape, dtype));
    node.hold({sin, minus});
  }
  b.output(y);
}

// 2.0 / sqrt(M_PI) * exp(-(self.pow(2))) * grad
void error_function(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const TensorId y = b.emit(Operator::erf, each, {x}, shape, dtype);
  if (NodeBuilder node = b.node("ErfBackward0", y, {x})) {
    const Operand square = node.run(Operator::pow, each, {x}, shape, dtype);
    node.attributes({{Attribute::exponent, 2}});
    const Operand minus = node.run(Operator::neg, each, {square}, shape, dtype);
    const Operand bell = node.run(Operator::exp, each, {minus}, shape, dtype);
    const Operand slope = node.run(Operator::mul, each, {bell}, shape, dtype);
    node.attributes({{Attribute::other, 2 * std::numbers::inv_sqrtpi}});
    node.give(x, node.run(Operator::mul, each, {slope, node.grad()}, shape, dtype));
    node.hold({square, minus, bell, slope});
  }
  b.output(y);
}

void reciprocal(LayerBuilder& b) {
  const TensorId x = b.autocast_fp32(b.input());
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const TensorId y = b.emit(Operator::reciprocal, each, {x}, shape, dtype);
  if (NodeBuilder node = b.node("ReciprocalBackward0", y, {x})) {
    const Operand minus = node.run(Operator::neg, each, {node.grad()}, shape, dtype);
    const Operand square = node.run(Operator::mul, each, {y, y}, shape, dtype);
    node.give(x, node.run(Operator::mul, each, {minus, square}, shape, dtype));
    node.hold({minus, square});
  }
  b.output(y);
}

void subtract_from(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const TensorId y = b.emit(Operator::rsub, each, {x}, shape, dtype);
  b.attributes({{Attribute::other, b.real("other")}});
  if (NodeBuilder node = b.node("RsubBackward1", y, {x}))
    node.give(x, node.run(Operator::neg, each, {node.grad()}, shape, dtype));
  b.output(y);
}

const ParameterDef kInPlace{"inplace", ParameterType::boolean, "False", "writes into its input"};

LayerDef function(std::string_view name, std::string_view summary, std::string_view math,
                  std::vector<ParameterDef> parameters, void (*lowering)(LayerBuilder&), std::string_view call,
                  std::int64_t saved) {
  return {.name = name,
          .summary = summary,
          .math = math,
          .parameters = std::move(parameters),
          .lower = lowering,
          .example = {.call = call,
                      .input_shapes = {{2, 8, 4, 4}},
                      .saved_bytes = saved,
                      .derivation = saved > 0 ? "one tensor of 2*8*4*4*4 bytes is saved, the input or the result"
                                              : "nothing is saved"}};
}

const LayerDef kLayers[] = {
    function("Exp", "e^x", "Saves its result.", {kInPlace}, in_fp32<aten::kExp>, "Exp()", 1'024),
    function("Log", "natural logarithm", "Saves its input.", {kInPlace}, in_fp32<kLog>, "Log()", 1'024),
    function("Sqrt", "square root", "Saves its result. Backward: grad / (2 y), of one temporary.", {}, square_root,
             "Sqrt()", 1'024),
    function("Abs", "absolute value", "Saves its input. Backward: grad * sgn(x), of one temporary.", {}, absolute,
             "Abs()", 1'024),
    function("Neg", "-x", "Saves nothing.", {kInPlace}, plain<aten::kNeg>, "Neg()", 0),
    function("Reciprocal", "1 / x", "Saves its result. Backward: -grad * y^2, of two temporaries.", {}, reciprocal,
             "Reciprocal()", 1'024),
    function("RSub", "a number minus x", "other - x. Saves nothing. Backward: -grad.",
             {{"other", ParameterType::real, "", "the number"}}, subtract_from, "RSub(1)", 0),
    function("Sin", "sine", "Saves its input. Backward: grad * cos x, of one temporary.", {}, sine, "Sin()", 1'024),
    function("Cos", "cosine", "Saves its input. Backward: grad * -sin x, of two temporaries.", {}, cosine, "Cos()",
             1'024),
    function("Erf", "error function", "Saves its input. Backward: grad * 2 / sqrt(pi) * e^(-x^2), of four temporaries.",
             {}, error_function, "Erf()", 1'024),
    function("LogSigmoid", "log(1 / (1 + e^-x))", "Saves its input.", {}, log_sigmoid, "LogSigmoid()", 1'024),
    function("Softplus", "log(1 + e^(beta x)) / beta", "Saves its input.",
             {{"beta", ParameterType::real, "1.0", "beta"},
              {"threshold", ParameterType::real, "20.0", "x itself above threshold / beta"}},
             softplus, "Softplus()", 1'024),
    function("Mish", "x tanh(softplus(x))", "Saves its input; in place a clone of it.", {kInPlace}, plain<kMish>,
             "Mish()", 1'024),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::pointwise_functions
