// Exp, Expm1, Log, Log1p, Sqrt, Abs, Neg, Reciprocal, RSub, Sin, Cos, Erf, LogSigmoid, Softplus, Mish: functions of
// every element that models write without a module.
//
// Formulas per tools/autograd/derivatives.yaml. exp, expm1, sqrt and reciprocal save their result, neg and rsub
// nothing, the others their input. Each factor of a gradient of two steps is a tensor that lives until the gradient is
// there. Under autocast exp, expm1, log, log1p, reciprocal and softplus compute in fp32
// (aten/src/ATen/autocast_mode.h).

#include <numbers>

#include "estimator/aten/formula.h"
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

void square_root(LayerBuilder& b) {
  b.output(aten::function(b, Operator::sqrt, b.input(), "SqrtBackward0", [](Operand grad, TensorId y, auto run) {
    run(Operator::div, {grad, run(Operator::mul, {y}, {{Attribute::other, 2}})});
  }));
}
void absolute(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::function(b, Operator::abs, x, "AbsBackward0", [x](Operand grad, TensorId, auto run) {
    run(Operator::mul, {grad, run(Operator::sgn, {x})});
  }));
}
void log_of_one_more(LayerBuilder& b) {
  const TensorId x = b.autocast_fp32(b.input());
  b.output(aten::function(b, Operator::log1p, x, "Log1PBackward0", [x](Operand grad, TensorId, auto run) {
    run(Operator::div, {grad, run(Operator::add, {x}, {{Attribute::other, 1}})});
  }));
}
void exponential_less_one(LayerBuilder& b) {
  const TensorId x = b.autocast_fp32(b.input());
  b.output(aten::function(b, Operator::expm1, x, "Expm1Backward0", [](Operand grad, TensorId y, auto run) {
    run(Operator::mul, {grad, run(Operator::add, {y}, {{Attribute::other, 1}})});
  }));
}
void sine(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::function(b, Operator::sin, x, "SinBackward0", [x](Operand grad, TensorId, auto run) {
    run(Operator::mul, {grad, run(Operator::cos, {x})});
  }));
}
void cosine(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::function(b, Operator::cos, x, "CosBackward0", [x](Operand grad, TensorId, auto run) {
    run(Operator::mul, {grad, run(Operator::neg, {run(Operator::sin, {x})})});
  }));
}
// 2.0 / sqrt(M_PI) * exp(-(self.pow(2))) * grad
void error_function(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::function(b, Operator::erf, x, "ErfBackward0", [x](Operand grad, TensorId, auto run) {
    const Operand square = run(Operator::pow, {x}, {{Attribute::exponent, 2}});
    const Operand bell = run(Operator::exp, {run(Operator::neg, {square})});
    run(Operator::mul, {run(Operator::mul, {bell}, {{Attribute::other, 2 * std::numbers::inv_sqrtpi}}), grad});
  }));
}
// -grad * y^2
void reciprocal(LayerBuilder& b) {
  const TensorId x = b.autocast_fp32(b.input());
  b.output(aten::function(b, Operator::reciprocal, x, "ReciprocalBackward0", [](Operand grad, TensorId y, auto run) {
    run(Operator::mul, {run(Operator::neg, {grad}), run(Operator::mul, {y, y})});
  }));
}
void subtract_from(LayerBuilder& b) {
  b.output(aten::function(b, Operator::rsub, b.input(), "RsubBackward1",
                          [](Operand grad, TensorId, auto run) { run(Operator::neg, {grad}); },
                          {{Attribute::other, b.real("other")}}));
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
    function("Expm1", "e^x - 1", "Saves its result. Backward: grad * (y + 1), of one temporary.", {},
             exponential_less_one, "Expm1()", 1'024),
    function("Log1p", "natural logarithm of 1 + x", "Saves its input. Backward: grad / (x + 1), of one temporary.", {},
             log_of_one_more, "Log1p()", 1'024),
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
