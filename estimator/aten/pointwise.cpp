#include "estimator/aten/pointwise.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "estimator/aten/promote.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::aten {
namespace {

struct Names {
  std::string_view op, in_place, node;
};

constexpr std::array<Names, 4> kNames{{{"aten::add", "aten::add_", "AddBackward0"},
                                       {"aten::sub", "aten::sub_", "SubBackward0"},
                                       {"aten::mul", "aten::mul_", "MulBackward0"},
                                       {"aten::div", "aten::div_", "DivBackward0"}}};

const Names& names(Binary op) { return kNames[static_cast<std::size_t>(op)]; }

// (x / y) / y times -grad: three temporaries, which autograd holds until the product is there (div_tensor_other_grad).
Operand divisor_gradient(NodeBuilder& node, TensorId x, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  const Operand quotient = node.run("aten::div", each, {x, y}, out, dtype);
  const Operand square = node.run("aten::div", each, {quotient, y}, out, dtype);
  const Operand minus = node.run("aten::neg", each, {node.grad()}, out, dtype);
  const Operand result = node.run("aten::mul", each, {minus, square}, out, dtype);
  node.hold({minus, square, quotient});
  return result;
}

Operand gradient_of_second(NodeBuilder& node, Binary op, TensorId x, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  switch (op) {
    case Binary::add: return node.grad();
    case Binary::sub: return node.run("aten::neg", each, {node.grad()}, out, dtype);
    case Binary::mul: return node.run("aten::mul", each, {node.grad(), x}, out, dtype);
    case Binary::div: return divisor_gradient(node, x, y, out, dtype);
  }
  return node.grad();
}

Operand gradient_of_first(NodeBuilder& node, Binary op, TensorId y, const Shape& out, DType dtype) {
  const Elementwise each{out.elements()};
  if (op == Binary::mul) return node.run("aten::mul", each, {node.grad(), y}, out, dtype);
  if (op == Binary::div) return node.run("aten::div", each, {node.grad(), y}, out, dtype);
  return node.grad();
}

using Saves = Unary::Saves;

}  // namespace

const Unary kRelu{
    "aten::relu", "aten::relu_", "ReluBackward0", "aten::threshold_backward", Saves::result, Saves::result, 1, true};
const Unary kHardtanh{
    "aten::hardtanh", "aten::hardtanh_", "HardtanhBackward0", "aten::hardtanh_backward", Saves::input, Saves::input, 2};
const Unary kLeakyRelu{"aten::leaky_relu",
                       "aten::leaky_relu_",
                       "LeakyReluBackward0",
                       "aten::leaky_relu_backward",
                       Saves::input,
                       Saves::result,
                       2,
                       true};
const Unary kElu{"aten::elu", "aten::elu_", "EluBackward0", "aten::elu_backward", Saves::input, Saves::result, 3};
const Unary kSigmoid{
    "aten::sigmoid", "aten::sigmoid_", "SigmoidBackward0", "aten::sigmoid_backward", Saves::result, Saves::result, 4};
const Unary kTanh{"aten::tanh", "aten::tanh_", "TanhBackward0", "aten::tanh_backward", Saves::result, Saves::result, 5};
const Unary kGelu{"aten::gelu", "", "GeluBackward0", "aten::gelu_backward", Saves::input, Saves::input, 8};
const Unary kSilu{"aten::silu", "aten::silu_", "SiluBackward0", "aten::silu_backward", Saves::input, Saves::input, 5};
const Unary kHardswish{"aten::hardswish",
                       "aten::hardswish_",
                       "HardswishBackward0",
                       "aten::hardswish_backward",
                       Saves::input,
                       Saves::input,
                       4};
const Unary kHardsigmoid{"aten::hardsigmoid",
                         "aten::hardsigmoid_",
                         "HardsigmoidBackward0",
                         "aten::hardsigmoid_backward",
                         Saves::input,
                         Saves::input,
                         3};
const Unary kExp{"aten::exp", "aten::exp_", "ExpBackward0", "aten::mul", Saves::result, Saves::result, 1};
const Unary kNeg{"aten::neg", "aten::neg_", "NegBackward0", "aten::neg", Saves::nothing, Saves::nothing, 1};

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
    kept = b.emit("aten::clone", Copy{x_shape.elements()}, {x}, {x_shape, b.dtype(x), Placing::like});
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
  b.numbers({number});
  if (NodeBuilder node = b.node(names(op).node, y, {x})) {
    if (op == Binary::add || op == Binary::sub) {
      node.give(x, node.grad());
    } else {
      node.give(x, node.run(names(op).op, work, {node.grad()}, shape, dtype));
      node.numbers({number});
    }
  }
  return y;
}

TensorId unary(LayerBuilder& b, TensorId x, const Unary& f, bool in_place, std::initializer_list<double> numbers) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements(), f.flops};
  const Saves saves = in_place ? f.saves_in_place : f.saves;
  TensorId kept = x;
  if (in_place && b.requires_grad(x) && saves == Saves::input)
    kept = b.emit("aten::clone", Copy{shape.elements()}, {x}, {shape, dtype, Placing::like});
  const TensorId y = in_place ? b.emit_in_place(f.op_in_place, work, {x}) : b.emit(f.op, work, {x}, shape, dtype);
  if (numbers.size() > 0) b.numbers(numbers);
  if (NodeBuilder node = b.node(f.node, y, {x})) {
    std::array<Operand, 2> reads{node.grad(), saves == Saves::result ? y : kept};
    if (f.saved_leads) std::swap(reads[0], reads[1]);
    const std::size_t count = saves == Saves::nothing ? 1 : 2;
    node.give(x, node.run(f.backward, work, std::span(reads).first(count), shape, dtype));
    if (numbers.size() > 0) node.numbers(numbers);
  }
  return y;
}

TensorId pow_number(LayerBuilder& b, TensorId x, double exponent) {
  x = b.autocast_fp32(x);
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements()};
  const TensorId y = b.emit("aten::pow", work, {x}, shape, dtype);
  b.numbers({exponent});
  if (NodeBuilder node = b.node("PowBackward0", y, {x})) {
    const Operand power = node.run("aten::pow", work, {x}, shape, dtype);
    node.numbers({exponent - 1});
    const Operand slope = node.run("aten::mul", work, {power}, shape, dtype);
    node.numbers({exponent});
    const Operand dx = node.run("aten::mul", work, {node.grad(), slope}, shape, dtype);
    node.hold({power, slope});
    node.give(x, dx);
  }
  return y;
}

TensorId rsqrt(LayerBuilder& b, TensorId x) {
  x = b.autocast_fp32(x);
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements()};
  const TensorId y = b.emit("aten::rsqrt", work, {x}, shape, dtype);
  if (NodeBuilder node = b.node("RsqrtBackward0", y, {x})) {
    const Operand cube = node.run("aten::pow", work, {y}, shape, dtype);
    node.numbers({3});
    const Operand half = node.run("aten::mul", work, {node.grad()}, shape, dtype);
    node.numbers({-0.5});
    const Operand dx = node.run("aten::mul", work, {half, cube}, shape, dtype);
    node.hold({cube, half});
    node.give(x, dx);
  }
  return y;
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
  const TensorId y = b.emit(mean ? "aten::mean" : "aten::sum", work, {x}, reduced_shape(in, mask, keep), result);
  b.numbers({static_cast<double>(mask)});
  const std::string_view name = mean  ? (all ? "MeanBackward0" : "MeanBackward1")
                                : all ? "SumBackward0"
                                      : "SumBackward1";
  if (NodeBuilder node = b.node(name, y, {x})) {
    if (mean && !all && b.before(200)) node.save(x);
    const Operand dy = node.expand(node.reshape(node.grad(), reduced_shape(in, mask, true)), in);
    // The division writes a full tensor of the expanded gradient's dimension order.
    node.give(x, mean ? node.run("aten::div", Elementwise{in.elements()}, {dy}, in, result) : dy);
    if (mean) node.numbers({static_cast<double>(in.elements()) / static_cast<double>(b.elements(y))});
  }
  return y;
}

TensorId dropout(LayerBuilder& b, TensorId x, double p, bool training) {
  if (p <= 0 || !training) return x;
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements(), 2};
  const OutputSpec results[] = {{shape, DType::boolean}, {shape, dtype}};
  const std::vector<TensorId> mask_and_y = b.emit_many("aten::native_dropout", work, {x}, results);
  b.numbers({p});
  const TensorId y = mask_and_y[1];
  if (NodeBuilder node = b.node("NativeDropoutBackward0", y, {x})) {
    node.give(x, node.run("aten::native_dropout_backward", work, {node.grad(), mask_and_y[0]}, shape, dtype));
    node.numbers({p});
  }
  return y;
}

TensorId masked_fill(LayerBuilder& b, TensorId x, TensorId mask, double number, bool in_place) {
  const Shape shape = broadcast(b, b.shape(x), b.shape(mask));
  const DType dtype = b.dtype(x);
  const Elementwise work{shape.elements()};
  const TensorId y = in_place ? b.emit_in_place("aten::masked_fill_", work, {x, mask})
                              : b.emit("aten::masked_fill", work, {x, mask}, shape, dtype);
  b.numbers({number});
  if (NodeBuilder node = b.node("MaskedFillBackward0", y, {x})) {
    node.give(x, node.run("aten::masked_fill", work, {node.grad(), mask}, shape, dtype));
    node.numbers({0});
  }
  return y;
}

TensorId no_grad(LayerBuilder& b, std::string_view name, std::span<const TensorId> reads, const Shape& shape,
                 DType dtype, std::initializer_list<double> numbers) {
  const TensorId y = b.emit(name, Elementwise{shape.elements()}, reads, shape, dtype);
  if (numbers.size() > 0) b.numbers(numbers);
  return y;
}

}  // namespace gpuplan::aten
