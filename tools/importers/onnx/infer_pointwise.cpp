// Operators that work element by element, and those that keep their input's shape.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "tools/importers/onnx/contents.h"
#include "tools/importers/onnx/infer.h"

namespace gpuplan::onnx_import {
namespace {

// A comparison makes a mask of booleans.
void combination(Inference& n, Integers integers, Reals reals, bool makes_mask) {
  const Value& a = n.in(0);
  const Value& b = n.in(1);
  Extents shape = n.broadcast(a.shape, b.shape);
  std::optional<Content> content;
  if (a.content && b.content) content = combine(spread(a, shape), spread(b, shape), integers, reals, !makes_mask);
  n.out(0, std::move(shape), makes_mask ? DType::boolean : a.type, std::move(content));
}

template <Integers integers, class Real>
void arithmetic(Inference& n) {
  combination(
      n, integers, [](double a, double b) -> double { return Real()(a, b); }, false);
}

template <class Compares>
void infer_comparison(Inference& n) {
  combination(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return Compares()(a, b); },
      [](double a, double b) -> double { return Compares()(a, b); }, true);
}

template <class Connects>
void infer_logical(Inference& n) {
  combination(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return Connects()(a != 0, b != 0); }, nullptr, true);
}

void infer_mod(Inference& n) { combination(n, remainder, nullptr, false); }
void infer_pow(Inference& n) {
  const Value& a = n.in(0);
  const Value& b = n.in(1);
  if (a.content && b.content && a.content->real != b.content->real)  // a real to an integer power is not folded
    return n.out(0, n.broadcast(a.shape, b.shape), a.type);
  combination(
      n, power, [](double x, double y) { return std::pow(x, y); }, false);
}

// Min, Max, Sum, Mean: of any number of tensors.
void variadic(Inference& n, Integers integers, Reals reals) {
  Extents shape = n.shape(0);
  for (std::size_t i = 1; i < n.inputs(); ++i) shape = n.broadcast(shape, n.shape(i));
  std::optional<Content> content = spread(n.in(0), shape);
  for (std::size_t i = 1; content && i < n.inputs(); ++i)
    content = combine(content, spread(n.in(i), shape), integers, reals, true);
  n.out(0, std::move(shape), n.in(0).type, std::move(content));
}
void infer_min(Inference& n) {
  variadic(
      n, [](std::int64_t a, std::int64_t b) { return std::min(a, b); },
      [](double a, double b) { return std::min(a, b); });
}
void infer_max(Inference& n) {
  variadic(
      n, [](std::int64_t a, std::int64_t b) { return std::max(a, b); },
      [](double a, double b) { return std::max(a, b); });
}
void infer_sum(Inference& n) {
  variadic(n, checked_add, [](double a, double b) { return a + b; });
}

void infer_mean(Inference& n) {
  Extents shape = n.shape();
  for (std::size_t i = 1; i < n.inputs(); ++i) shape = n.broadcast(shape, n.shape(i));
  n.out(std::move(shape));
}

void same_shape(Inference& n) { n.out(n.shape()); }

template <double (*apply)(double)>
void real_function(Inference& n) {
  n.out(0, n.shape(), n.in(0).type, map_reals(n.in(0).content, apply));
}
double reciprocal(double x) { return 1 / x; }
double square_root(double x) { return std::sqrt(x); }
double exponential(double x) { return std::exp(x); }
double logarithm(double x) { return std::log(x); }
double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }
double round_down(double x) { return std::floor(x); }
double round_up_to(double x) { return std::ceil(x); }
double round_even(double x) { return std::nearbyint(x); }

void infer_neg(Inference& n) {
  const std::optional<Content>& c = n.in(0).content;
  if (!c || c->real) return n.out(0, n.shape(), n.in(0).type, map_reals(c, [](double x) { return -x; }));
  Content out;
  for (const Extent& e : c->integers) out.integers.push_back(each(0, e, subtract));
  n.out(0, n.shape(), n.in(0).type, std::move(out));
}

void infer_not(Inference& n) {
  const std::optional<Content>& c = n.in(0).content;
  if (!c || c->real) return n.out(0, n.shape(), DType::boolean);
  Content out;
  for (const Extent& e : c->integers) out.integers.emplace_back(e.at[0] == 0, e.at[1] == 0);
  n.out(0, n.shape(), DType::boolean, std::move(out));
}

void infer_to_boolean(Inference& n) { n.out(0, n.shape(), DType::boolean); }

void infer_identity(Inference& n) {
  n.view();
  n.out(0, n.shape(), n.in(0).type, n.in(0).content);
}

void infer_dropout(Inference& n) {
  n.out(n.shape());
  n.out(1, n.shape(), DType::boolean);
}

// TensorProto.DataType numbers of the types that a cast may be to.
DType cast_type(Inference& n) {
  switch (n.integer("to", 0)) {
    case 1: return DType::fp32;
    case 2: return DType::uint8;
    case 3: return DType::int8;
    case 6: return DType::int32;
    case 7: return DType::int64;
    case 9: return DType::boolean;
    case 10: return DType::fp16;
    case 11: return DType::fp64;
    case 16: return DType::bf16;
    default: n.fail("a cast to type " + std::to_string(n.integer("to", 0)) + ", which is not known");
  }
}

void infer_cast(Inference& n) {
  const DType type = cast_type(n);
  if (is_floating(type) && is_floating(n.in(0).type)) n.view();
  n.out(0, n.shape(), type, converted(n.in(0).content, type));
}

void infer_cast_like(Inference& n) {
  const DType type = n.in(1).type;
  n.out(0, n.shape(), type, converted(n.in(0).content, type));
}

void infer_where(Inference& n) {
  Extents shape = n.broadcast(n.broadcast(n.shape(0), n.shape(1)), n.shape(2));
  const DType type = n.in(1).type;
  if (!n.in(0).content || !n.in(1).content || !n.in(2).content) return n.out(0, std::move(shape), type);
  const std::optional<Content> mask = spread(n.in(0), shape);
  const std::optional<Content> x = spread(n.in(1), shape);
  const std::optional<Content> y = spread(n.in(2), shape);
  if (!mask || !x || !y || mask->real || x->real != y->real) return n.out(0, std::move(shape), type);
  Content out;
  out.real = x->real;
  for (std::size_t i = 0; i < mask->size(); ++i) {
    const std::array<bool, 2> take = {mask->integers[i].at[0] != 0, mask->integers[i].at[1] != 0};
    if (x->real)
      out.reals.push_back({take[0] ? x->reals[i][0] : y->reals[i][0], take[1] ? x->reals[i][1] : y->reals[i][1]});
    else
      out.integers.emplace_back(take[0] ? x->integers[i].at[0] : y->integers[i].at[0],
                                take[1] ? x->integers[i].at[1] : y->integers[i].at[1]);
  }
  n.out(0, std::move(shape), type, std::move(out));
}

void infer_expand(Inference& n) {
  Extents shape = n.broadcast(n.shape(0), n.content(1, "its sizes"));
  std::optional<Content> content = spread(n.in(0), shape);
  n.out(0, std::move(shape), n.in(0).type, std::move(content));
}

// Norms of one scale for each number of the last dimension (decompose.cpp).
void infer_simplified_norm(Inference& n) {
  if (n.shape().empty() || n.shape(1) != Extents{n.shape().back()})
    n.fail("its scale " + to_string(n.shape(1)) + " is not of the last dimension of " + to_string(n.shape()));
  n.out(n.shape());
}

void infer_prelu(Inference& n) { n.out(n.broadcast(n.shape(0), n.shape(1))); }

// Operators whose result is shaped as their first input.
constexpr const char* kSameShape[] = {
    // Of each element by itself.
    "Relu", "Sigmoid", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "Erf", "Tanh",
    "Softplus", "Softsign", "Mish", "Clip", "Abs", "Sign", "Swish",
    // Of a row, a channel or a region.
    "Softmax", "LogSoftmax", "Hardmax", "Trilu", "CumSum", "InstanceNormalization", "LRN", "GroupNormalization",
    "LpNormalization", "RMSNormalization",
    // Written into, and drawn.
    "ScatterND", "ScatterElements", "RandomUniformLike", "RandomNormalLike", "Bernoulli"};

}  // namespace

std::vector<NamedRule> pointwise_rules() {
  std::vector<NamedRule> rules = {
      {"Add", arithmetic<checked_add, std::plus<>>},
      {"Sub", arithmetic<subtract, std::minus<>>},
      {"Mul", arithmetic<checked_mul, std::multiplies<>>},
      {"Div", arithmetic<divide, std::divides<>>},
      {"Mod", infer_mod},
      {"Pow", infer_pow},
      {"Min", infer_min},
      {"Max", infer_max},
      {"Sum", infer_sum},
      {"Mean", infer_mean},
      {"Less", infer_comparison<std::less<>>},
      {"LessOrEqual", infer_comparison<std::less_equal<>>},
      {"Greater", infer_comparison<std::greater<>>},
      {"GreaterOrEqual", infer_comparison<std::greater_equal<>>},
      {"Equal", infer_comparison<std::equal_to<>>},
      {"And", infer_logical<std::logical_and<>>},
      {"Or", infer_logical<std::logical_or<>>},
      {"Xor", infer_logical<std::not_equal_to<>>},
      {"Not", infer_not},
      {"Neg", infer_neg},
      {"Sqrt", real_function<square_root>},
      {"Reciprocal", real_function<reciprocal>},
      {"Exp", real_function<exponential>},
      {"Log", real_function<logarithm>},
      {"Sin", real_function<sine>},
      {"Cos", real_function<cosine>},
      {"Floor", real_function<round_down>},
      {"Ceil", real_function<round_up_to>},
      {"Round", real_function<round_even>},
      {"IsNaN", infer_to_boolean},
      {"IsInf", infer_to_boolean},
      {"Identity", infer_identity},
      {"Dropout", infer_dropout},
      {"Cast", infer_cast},
      {"CastLike", infer_cast_like},
      {"Where", infer_where},
      {"Expand", infer_expand},
      {"PRelu", infer_prelu},
      {"RootMeanSquareNorm", infer_simplified_norm},
  };
  for (const char* op : kSameShape) rules.push_back({op, same_shape});
  return rules;
}

}  // namespace gpuplan::onnx_import
