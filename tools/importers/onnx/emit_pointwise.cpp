// Element by element, and reductions.
#include <algorithm>
#include <cmath>

#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b)); }

EmitRule of_one(const char* call) {
  return [call](Emission& e) { e.layer(call); };
}

void emit_gelu(Emission& e) {
  e.layer(e.text("approximate", "none") == "tanh" ? "GELU(approximate='tanh')" : "GELU()");
}
void emit_swish(Emission& e) {
  if (e.real("alpha", 1) != 1) e.fail("a slope of " + to_text(e.real("alpha", 1)) + " is not torch.nn's SiLU");
  e.layer("SiLU()");
}
void emit_leaky_relu(Emission& e) { e.layer("LeakyReLU(" + to_text(static_cast<float>(e.real("alpha", 0.01))) + ")"); }
void emit_elu(Emission& e) { e.layer("ELU(" + to_text(static_cast<float>(e.real("alpha", 1))) + ")"); }

void emit_hard_sigmoid(Emission& e) {
  if (!near(e.real("alpha", 0.2), 1.0 / 6) || !near(e.real("beta", 0.5), 0.5))
    e.fail("a slope of " + to_text(e.real("alpha", 0.2)) + " is not torch.nn's Hardsigmoid");
  e.layer("Hardsigmoid()");
}

// Bounds are attributes before opset 11.
void emit_clip(Emission& e) {
  std::optional<double> low = e.number(1);
  std::optional<double> high = e.number(2);
  if (e.has_attribute("min")) low = e.real("min", 0);
  if (e.has_attribute("max")) high = e.real("max", 0);
  if (low && *low == 0 && high && *high == 6) return e.layer("ReLU6()");
  if (low && *low == 0 && !high) return e.layer("ReLU()");
  if (!low && !high) return e.pass();
  std::string bounds = low ? "min=" + to_text(*low) : "";
  if (high) bounds += (low ? ", max=" : "max=") + to_text(*high);
  e.layer("Clamp(" + bounds + ")");
}

void emit_dropout(Emission& e) {
  double p = e.real("ratio", 0.5);
  if (const std::optional<double> given = e.number(1)) p = *given;
  e.layer("Dropout(" + to_text(static_cast<float>(p)) + ")");
}

void emit_stochastic_depth(Emission& e) {
  e.layer("StochasticDepth(" + to_text(e.real("p", 0)) + ", mode='" + std::string(e.text("mode", "row")) + "')");
}

void emit_softmax(Emission& e) {
  const std::size_t rank = e.shape().size();
  // Before opset 13 all dimensions from the axis on are one.
  const bool flattens = e.graph().opset < 13;
  const std::size_t axis = e.axis(e.integer("axis", flattens ? 1 : -1), rank);
  if (flattens && axis + 1 != rank) e.fail("a softmax over several dimensions");
  e.layer((e.node().op == "Softmax" ? "Softmax(dim=" : "LogSoftmax(dim=") + std::to_string(axis) + ")");
}

// --- two tensors, or one and a number -------------------------------------------------------------------------------

// Types that two operands are promoted to are theirs already: ONNX casts.
void emit_binary(Emission& e, const std::string& layer) {
  const std::optional<double> a = e.number(0);
  const std::optional<double> b = e.number(1);
  const bool grows = e.result().shape.size() > (b ? e.shape(0) : e.shape(1)).size();  // a number of several dimensions
  if (b && !grows) return e.layer(layer + "(other=" + to_text(*b) + ")");
  if (a && !grows && (layer == "Add" || layer == "Mul"))
    return e.give(e.writer().add(e.wish(), layer + "(other=" + to_text(*a) + ")", {e.input(1)}));
  if (a && !grows && layer == "Sub") return e.give(e.writer().add(e.wish(), "RSub(" + to_text(*a) + ")", {e.input(1)}));
  if (a && !grows && layer == "Div") {
    const std::string inverse = e.writer().add(e.wish() + "_reciprocal", "Reciprocal()", {e.input(1)});
    return e.give(*a == 1 ? inverse : e.writer().add(e.wish(), "Scale(" + to_text(*a) + ")", {inverse}));
  }
  e.give(e.writer().add(e.wish(), layer + "()", {e.input(0), e.input(1)}));
}

EmitRule binary(const char* layer) {
  return [layer](Emission& e) { emit_binary(e, layer); };
}

// A quotient of integers is an integer in ONNX: x // number.
void emit_div(Emission& e) {
  const std::optional<double> b = e.number(1);
  if (b && !is_floating(e.in(0).type)) return e.layer("FloorDivide(" + to_text(*b) + ")");
  emit_binary(e, "Div");
}

void emit_mod(Emission& e) {
  const std::optional<double> b = e.number(1);
  if (!b) e.fail("a remainder by a tensor, which no layer supports");
  e.layer("Remainder(" + to_text(*b) + ")");
}

// Max and Min of a tensor and a number, as torch.clamp of one bound is written, or of tensors.
void emit_bound(Emission& e) {
  const bool is_max = e.node().op == "Max";
  const std::size_t tensor = e.inputs() == 2 && e.number(0) ? 1 : 0;
  const std::optional<double> bound = e.inputs() == 2 ? e.number(1 - tensor) : std::nullopt;
  if (!bound || e.shape(tensor) != e.result().shape) {
    std::string name = e.input(0);
    for (std::size_t i = 1; i < e.inputs(); ++i)
      name = e.writer().add(e.wish(), is_max ? "Maximum()" : "Minimum()", {name, e.input(i)});
    return e.give(name);
  }
  if (is_max && *bound == 0 && is_floating(e.in(tensor).type))
    return e.give(e.writer().add(e.wish(), "ReLU()", {e.input(tensor)}));
  e.give(e.writer().add(e.wish(), (is_max ? "Clamp(min=" : "Clamp(max=") + to_text(*bound) + ")", {e.input(tensor)}));
}

void emit_sum(Emission& e) {
  std::string name = e.input(0);
  for (std::size_t i = 1; i < e.inputs(); ++i) name = e.writer().add(e.wish(), "Add()", {name, e.input(i)});
  e.give(name);
}

void emit_mean(Emission& e) {
  std::string name = e.input(0);
  for (std::size_t i = 1; i < e.inputs(); ++i) name = e.writer().add(e.wish() + "_sum", "Add()", {name, e.input(i)});
  e.give(e.writer().add(e.wish(), "Div(other=" + std::to_string(e.inputs()) + ")", {name}));
}

EmitRule of_two(const char* call) {
  return [call](Emission& e) { e.give(e.writer().add(e.wish(), call, {e.input(0), e.input(1)})); };
}

void emit_pow(Emission& e) {
  const std::optional<double> exponent = e.number(1);
  if (const std::optional<double> base = e.number(0); base && !exponent)
    return e.give(e.writer().add(e.wish(), "RPow(" + to_text(*base) + ")", {e.input(1)}));
  if (!exponent) e.fail("its exponent is not one number");
  if (*exponent == 1) return e.pass();
  e.layer("Pow(" + to_text(*exponent) + ")");
}

// A comparison with a number, or of two tensors, as a mask.
EmitRule comparison(const std::string& layer) {
  return [layer](Emission& e) {
    const std::optional<double> b = e.shape(0) == e.result().shape ? e.number(1) : std::nullopt;
    if (!b) return e.give(e.writer().add(e.wish(), layer + "()", {e.input(0), e.input(1)}));
    e.layer(layer + "(" + to_text(*b) + ")");
  };
}

// torch's masked_fill is exported with the number first.
void emit_where(Emission& e) {
  const std::optional<double> x = e.number(1);
  if (x && e.shape(2) == e.result().shape)
    return e.give(e.writer().add(e.wish(),
                                 "MaskedFill(" + (std::isinf(*x) ? (*x < 0 ? "-inf" : "inf") : to_text(*x)) + ")",
                                 {e.input(2), e.input(0)}));
  e.give(e.writer().add(e.wish(), "Where()", {e.input(0), e.input(1), e.input(2)}));
}

// Floating types are the run's own (--precision, --amp); the others stay what they are.
void emit_cast(Emission& e) {
  const DType from = e.in(0).type;
  const DType to = e.result().type;
  if (from == to || (is_floating(from) && is_floating(to))) return e.pass();
  e.layer("To(" + std::string(name_of(to)) + ")");
}

void emit_pass(Emission& e) { e.pass(); }

}  // namespace

std::vector<NamedEmitRule> pointwise_emitters() {
  return {{"Relu", of_one("ReLU()")},
          {"Sigmoid", of_one("Sigmoid()")},
          {"Tanh", of_one("Tanh()")},
          {"HardSwish", of_one("Hardswish()")},
          {"SiLU", of_one("SiLU()")},
          {"Swish", emit_swish},
          {"Rsqrt", of_one("Rsqrt()")},
          {"NewGELU", of_one("NewGELU()")},
          {"Neg", of_one("Neg()")},
          {"Reciprocal", of_one("Reciprocal()")},
          {"Gelu", emit_gelu},
          {"LeakyRelu", emit_leaky_relu},
          {"Elu", emit_elu},
          {"HardSigmoid", emit_hard_sigmoid},
          {"Clip", emit_clip},
          {"Dropout", emit_dropout},
          {"StochasticDepth", emit_stochastic_depth},
          {"Softmax", emit_softmax},
          {"LogSoftmax", emit_softmax},
          {"Add", binary("Add")},
          {"Sub", binary("Sub")},
          {"Mul", binary("Mul")},
          {"Div", emit_div},
          {"Mod", emit_mod},
          {"Max", emit_bound},
          {"Min", emit_bound},
          {"Sum", emit_sum},
          {"Mean", emit_mean},
          {"And", of_two("LogicalAnd()")},
          {"Or", of_two("LogicalOr()")},
          {"Xor", of_two("LogicalXor()")},
          {"Pow", emit_pow},
          {"Sqrt", of_one("Sqrt()")},
          {"Exp", of_one("Exp()")},
          {"Log", of_one("Log()")},
          {"Abs", of_one("Abs()")},
          {"Sin", of_one("Sin()")},
          {"Cos", of_one("Cos()")},
          {"Softplus", of_one("Softplus()")},
          {"Mish", of_one("Mish()")},
          {"Less", comparison("Lt")},
          {"LessOrEqual", comparison("Le")},
          {"Greater", comparison("Gt")},
          {"GreaterOrEqual", comparison("Ge")},
          {"Equal", comparison("Eq")},
          {"NotEqual", comparison("Ne")},
          {"Not", of_one("Not()")},
          {"Where", emit_where},
          {"Cast", emit_cast},
          {"CastLike", emit_cast},
          {"Identity", emit_pass}};
}

}  // namespace gpuplan::onnx_import
