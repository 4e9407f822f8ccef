#include "estimator/aten/pointwise.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "estimator/aten/formula.h"
#include "estimator/aten/promote.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::aten {
namespace {

struct Names {
  Operator op, in_place;
  std::string_view node;
};

constexpr std::array<Names, 4> kNames{{{Operator::add, Operator::add_, "AddBackward0"},
                                       {Operator::sub, Operator::sub_, "SubBackward0"},
                                       {Operator::mul, Operator::mul_, "MulBackward0"},
                                       {Operator::div, Operator::div_, "DivBackward0"}}};

const Names& names(Binary op) { return kNames[static_cast<std::size_t>(op)]; }

// (x / y) / y times -grad: three temporaries, which autograd holds until the product is there (div_tensor_other_grad).
Operand divisor_gradient(NodeBuilder& node, TensorId x, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  const Operand quotient = node.run(Operator::div, each, {x, y}, out, dtype);
  const Operand square = node.run(Operator::div, each, {quotient, y}, out, dtype);
  const Operand minus = node.run(Operator::neg, each, {node.grad()}, out, dtype);
  const Operand result = node.run(Operator::mul, each, {minus, square}, out, dtype);
  node.hold({minus, square, quotient});
  return result;
}

Operand gradient_of_second(NodeBuilder& node, Binary op, TensorId x, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  switch (op) {
    case Binary::add: return node.grad();
    case Binary::sub: return node.run(Operator::neg, each, {node.grad()}, out, dtype);
    case Binary::mul: return node.run(Operator::mul, each, {node.grad(), x}, out, dtype);
    case Binary::div: return divisor_gradient(node, x, y, out, dtype);
  }
  return node.grad();
}

Operand gradient_of_first(NodeBuilder& node, Binary op, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  if (op == Binary::mul) return node.run(Operator::mul, each, {node.grad(), y}, out, dtype);
  if (op == Binary::div) return node.run(Operator::div, each, {node.grad(), y}, out, dtype);
  return node.grad();
}

using Saves = Unary::Saves;

}  // namespace

const Unary kRelu{
    Operator::relu, Operator::relu_, "ReluBackward0", Operator::threshold_backward, Saves::result, Saves::result, true};
const Unary kHardtanh{Operator::hardtanh,          Operator::hardtanh_, "HardtanhBackward0",
                      Operator::hardtanh_backward, Saves::input,        Saves::input};
const Unary kLeakyRelu{Operator::leaky_relu,
                       Operator::leaky_relu_,
                       "LeakyReluBackward0",
                       Operator::leaky_relu_backward,
                       Saves::input,
                       Saves::result,
                       true};
const Unary kElu{Operator::elu, Operator::elu_, "EluBackward0", Operator::elu_backward, Saves::input, Saves::result};
const Unary kSigmoid{Operator::sigmoid,          Operator::sigmoid_, "SigmoidBackward0",
                     Operator::sigmoid_backward, Saves::result,      Saves::result};
const Unary kTanh{Operator::tanh,          Operator::tanh_, "TanhBackward0",
                  Operator::tanh_backward, Saves::result,   Saves::result};
const Unary kGelu{Operator::gelu,          Operator::gelu_, "GeluBackward0",
                  Operator::gelu_backward, Saves::input,    Saves::input};
const Unary kSilu{Operator::silu,          Operator::silu_, "SiluBackward0",
                  Operator::silu_backward, Saves::input,    Saves::input};
const Unary kHardswish{Operator::hardswish,          Operator::hardswish_, "HardswishBackward0",
                       Operator::hardswish_backward, Saves::input,         Saves::input};
const Unary kHardsigmoid{Operator::hardsigmoid,          Operator::hardsigmoid_, "HardsigmoidBackward0",
                         Operator::hardsigmoid_backward, Saves::input,           Saves::input};
const Unary kExp{Operator::exp, Operator::exp_, "ExpBackward0", Operator::mul, Saves::result, Saves::result};
const Unary kNeg{Operator::neg, Operator::neg_, "NegBackward0", Operator::neg, Saves::nothing, Saves::nothing};

Shape broadcast(const LayerBuilder& b, const Shape& x, const Shape& y) {
  const int rank = std::max(x.rank(), y.rank());
  Shape out;
  for (int i = rank; i > 0; --i) {
    const std::int64_t m = i <= x.rank() ? x[-i] : 1;
    const std::int64_t n = i <= y.rank() ? y[-i] : 1;
    if (m != n && m != 1 && n != 1)
      b.fail("the shapes " + to_string(x) + " and " + to_string(y) + " do not broadcast: " + std::to_string(m) +
             " against " + std::to_string(n) + " in dimension " + std::to_string(-i));
    out.push_back(m == 1 ? n : m);
  }
  return out;
}

TensorId binary(LayerBuilder& b, Binary op, TensorId x, TensorId y, bool in_place) {
  const Shape x_shape = b.shape(x);
  const Shape out = broadcast(b, x_shape, b.shape(y));
  // A tensor without dimensions does not widen the type of one that has some.
  const DType dtype = b.shape(y).rank() == 0 && x_shape.rank() > 0   ? b.dtype(x)
                      : x_shape.rank() == 0 && b.shape(y).rank() > 0 ? b.dtype(y)
                                                                     : promote(b.dtype(x), b.dtype(y));
  if (in_place && !(out == x_shape))
    b.fail("inplace", "in place, its first input " + to_string(x_shape) + " would have to grow to " + to_string(out));
  TensorId kept = x;  // what the second operand's gradient reads
  const bool product = op == Binary::mul || op == Binary::div;
  if (in_place && product && b.requires_grad(y))
    kept = b.emit(Operator::clone, Copy{x_shape.elements()}, {x}, {x_shape, b.dtype(x), Placing::like});
  const Elementwise work{out.elements()};
  const TensorId z =
      in_place ? b.emit_in_place(names(op).in_place, work, {x, y}) : b.emit(names(op).op, work, {x, y}, out, dtype);
  if (NodeBuilder node = b.node(names(op).node, z, {x, y})) {
    // Formulas are sorted by name, "other" before "self".
    Operand dx = 0;
    Operand dy = 0;
    if (node.needs(y)) dy = gradient_of_second(node, op, kept, y, out, dtype);
    if (node.needs(x)) dx = gradient_of_first(node, op, y, out, dtype);
    if (node.needs(x)) node.give(x, dx);
    if (node.needs(y)) node.give(y, dy);
  }
  return z;
}

namespace {

// With a float, or as a quotient, integers give torch's default type (aten/src/ATen/native/TypeProperties.cpp).
DType with_number(DType x, Binary op, bool integer) {
  if (is_floating(x)) return x;
  if (!integer || op == Binary::div) return DType::fp32;
  return x == DType::boolean ? DType::int64 : x;
}

}  // namespace

TensorId binary_number(LayerBuilder& b, Binary op, TensorId x, double number, bool in_place, bool integer) {
  const Shape shape = b.shape(x);
  const DType dtype = in_place ? b.dtype(x) : with_number(b.dtype(x), op, integer);
  const Elementwise work{shape.elements()};
  const TensorId y =
      in_place ? b.emit_in_place(names(op).in_place, work, {x}) : b.emit(names(op).op, work, {x}, shape, dtype);
  b.attributes({{Attribute::other, number}});
  if (NodeBuilder node = b.node(names(op).node, y, {x})) {
    if (op == Binary::add || op == Binary::sub) {
      node.give(x, node.grad());
    } else {
      node.give(x, node.run(names(op).op, work, {node.grad()}, shape, dtype));
      node.attributes({{Attribute::other, number}});
    }
  }
  return y;
}

TensorId unary(LayerBuilder& b, TensorId x, const Unary& f, bool in_place,
               std::initializer_list<AttributeValue> attributes, std::initializer_list<AttributeValue> of_backward) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work = each_of(f.op, shape);
  const Saves saves = in_place ? f.saves_in_place : f.saves;
  TensorId kept = x;
  if (in_place && b.requires_grad(x) && saves == Saves::input)
    kept = b.emit(Operator::clone, Copy{shape.elements()}, {x}, {shape, dtype, Placing::like});
  const TensorId y = in_place ? b.emit_in_place(f.op_in_place, work, {x}) : b.emit(f.op, work, {x}, shape, dtype);
  if (attributes.size() > 0) b.attributes(attributes);
  if (NodeBuilder node = b.node(f.node, y, {x})) {
    std::array<Operand, 2> reads{node.grad(), saves == Saves::result ? y : kept};
    if (f.saved_leads) std::swap(reads[0], reads[1]);
    const std::size_t count = saves == Saves::nothing ? 1 : 2;
    node.give(x, node.run(f.backward, work, std::span(reads).first(count), shape, dtype));
    for (const auto& given : {attributes, of_backward})
      if (given.size() > 0) node.attributes(given);
  }
  return y;
}

TensorId pow_number(LayerBuilder& b, TensorId x, double exponent) {
  x = b.autocast_fp32(x);
  const auto gradient = [&](Operand grad, TensorId, auto run) {
    const Operand power = run(Operator::pow, {x}, {{Attribute::exponent, exponent - 1}});
    run(Operator::mul, {grad, run(Operator::mul, {power}, {{Attribute::other, exponent}})});
  };
  return function(b, Operator::pow, x, "PowBackward0", gradient, {{Attribute::exponent, exponent}});
}

TensorId rsqrt(LayerBuilder& b, TensorId x) {
  return function(b, Operator::rsqrt, b.autocast_fp32(x), "RsqrtBackward0", [](Operand grad, TensorId y, auto run) {
    const Operand cube = run(Operator::pow, {y}, {{Attribute::exponent, 3}});
    run(Operator::mul, {run(Operator::mul, {grad}, {{Attribute::other, -0.5}}), cube});
  });
}

TensorId reduce(LayerBuilder& b, TensorId x, unsigned mask, bool keep, bool mean, std::optional<DType> asked) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const bool all = mask == (1U << in.rank()) - 1;
  // Autocast asks sum, which it runs in fp32, for a result of that type (autocast_mode.h,
  // AT_FORALL_FP32_SET_OPT_DTYPE), if the caller asks for none. mean is on none of its lists.
  if (!asked && !mean && is_half(dtype) && b.autocast()) asked = DType::fp32;
  // Sums of booleans and of narrow integers are int64.
  if (!asked && !mean && !is_floating(dtype)) asked = DType::int64;
  const DType result = asked.value_or(dtype);
  // The kernel reads half tensors for a result in fp32, and else a copy of the result's type
  // (aten/src/ATen/native/ReduceOpsUtils.h, make_reduction_from_out_ty).
  const bool converts = result != dtype && !(is_half(dtype) && result == DType::fp32);
  const Reduction work{.shape = in,
                       .reduced = mask,
                       .input = converts ? result : dtype,
                       .output = result,
                       .mean = mean,
                       .converts = converts};
  const TensorId y = b.emit(mean ? Operator::mean : Operator::sum, work, {x}, reduced_shape(in, mask, keep), result);
  b.attributes({{Attribute::dims, mask}});
  const std::string_view name = mean  ? (all ? "MeanBackward0" : "MeanBackward1")
                                : all ? "SumBackward0"
                                      : "SumBackward1";
  if (NodeBuilder node = b.node(name, y, {x})) {
    if (mean && !all && b.before(200)) node.save(x);
    const Operand dy = node.expand(node.reshape(node.grad(), reduced_shape(in, mask, true)), in);
    // The division writes a full tensor of the expanded gradient's dimension order.
    node.give(x, mean ? node.run(Operator::div, Elementwise{in.elements()}, {dy}, in, result) : dy);
    if (mean)
      node.attributes({{Attribute::other, static_cast<double>(in.elements()) / static_cast<double>(b.elements(y))}});
  }
  return y;
}

double probability(const LayerBuilder& b, std::string_view name) {
  const double p = b.real(name);
  if (!(p >= 0 && p <= 1)) b.fail(name, std::string(name) + " is a probability", "expected 0 to 1");
  return p;
}

TensorId dropout(LayerBuilder& b, TensorId x, double p, bool training) {
  if (p <= 0 || !training) return x;
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work = each_of(Operator::native_dropout, shape);
  const OutputSpec results[] = {{shape, DType::boolean}, {shape, dtype}};
  const std::vector<TensorId> mask_and_y = b.emit_many(Operator::native_dropout, work, {x}, results);
  b.attributes({{Attribute::p, p}});
  const TensorId y = mask_and_y[1];
  if (NodeBuilder node = b.node("NativeDropoutBackward0", y, {x})) {
    node.give(x, node.run(Operator::native_dropout_backward, work, {node.grad(), mask_and_y[0]}, shape, dtype));
    node.attributes({{Attribute::p, p}});
  }
  return y;
}

TensorId masked_fill(LayerBuilder& b, TensorId x, TensorId mask, double number, bool in_place) {
  const Shape shape = broadcast(b, b.shape(x), b.shape(mask));
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements()};
  // A contiguous clone that is filled in place (aten/src/ATen/native/TensorAdvancedIndexing.cpp, masked_fill).
  const OutputSpec clone{shape, dtype, Placing::contiguous};
  const TensorId y = in_place ? b.emit_in_place(Operator::masked_fill_, work, {x, mask})
                              : b.emit(Operator::masked_fill, work, {x, mask}, clone);
  b.attributes({{Attribute::value, number}});
  if (NodeBuilder node = b.node("MaskedFillBackward0", y, {x})) {
    node.give(x, node.run(Operator::masked_fill, work, {node.grad(), mask}, clone));
    node.attributes({{Attribute::value, 0}});
  }
  return y;
}

TensorId no_grad(LayerBuilder& b, Operator op, Operands reads, const Shape& shape, DType dtype,
                 std::initializer_list<AttributeValue> attributes) {
  const TensorId y = b.emit(op, Elementwise{shape.elements()}, reads, shape, dtype);
  if (attributes.size() > 0) b.attributes(attributes);
  return y;
}

}  // namespace gpuplan::aten
