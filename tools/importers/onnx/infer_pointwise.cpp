// Operators that work element by element, and those that keep their input's shape.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "tools/importers/onnx/infer.h"

namespace gpuplan::onnx_import {
namespace {

// --- contents -------------------------------------------------------------------------------------------------------

// The place in a tensor of `from` that element `i` of the broadcast shape `to` is read from.
std::vector<std::size_t> broadcast_places(const Extents& from, const Extents& to) {
  const std::vector<std::size_t> source = strides_of(from);
  const std::vector<std::size_t> target = strides_of(to);
  const auto count = static_cast<std::size_t>(product(to).at[0]);
  std::vector<std::size_t> places(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    for (std::size_t d = 0; d < to.size(); ++d) {
      const std::size_t at = rest / target[d];
      rest %= target[d];
      const std::size_t behind = to.size() - d;
      if (behind > from.size() || from[from.size() - behind] == Extent(1)) continue;
      places[i] += at * source[from.size() - behind];
    }
  }
  return places;
}

std::optional<Content> spread(const Value& v, const Extents& to) {
  if (!v.content || !is_small(to) || !is_small(v.shape)) return std::nullopt;
  return pick(v.content, broadcast_places(v.shape, to));
}

using Integers = std::int64_t (*)(std::int64_t, std::int64_t);
using Reals = double (*)(double, double);

std::optional<Content> combine(const std::optional<Content>& a, const std::optional<Content>& b, Integers integers,
                               Reals reals, bool to_real) {
  if (!a || !b || a->real != b->real) return std::nullopt;
  Content out;
  out.real = a->real && to_real;
  for (std::size_t i = 0; i < a->size(); ++i) {
    if (!a->real) {
      if (integers == nullptr) return std::nullopt;
      out.integers.push_back(each(a->integers[i], b->integers[i], integers));
      continue;
    }
    if (reals == nullptr) return std::nullopt;
    const Real r = {reals(a->reals[i][0], b->reals[i][0]), reals(a->reals[i][1], b->reals[i][1])};
    if (to_real)
      out.reals.push_back(r);
    else
      out.integers.emplace_back(static_cast<std::int64_t>(r[0]), static_cast<std::int64_t>(r[1]));
  }
  return out;
}

template <class Apply>
std::optional<Content> map_reals(const std::optional<Content>& a, Apply apply) {
  if (!a || !a->real) return std::nullopt;
  Content out = *a;
  for (Real& r : out.reals) r = {apply(r[0]), apply(r[1])};
  return out;
}

std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) throw Error("a division by zero");
  return a / b;
}

std::int64_t remainder(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return b == 0 ? throw Error("a division by zero") : 0;
  const std::int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

std::int64_t power(std::int64_t a, std::int64_t b) {
  std::int64_t out = 1;
  if (b < 0 || b > 64) throw Error("an integer to the power " + std::to_string(b));
  for (std::int64_t i = 0; i < b; ++i) out = checked_mul(out, a);
  return out;
}

std::int64_t subtract(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) throw Error("a difference that does not fit in 64 bits");
  return out;
}

// --- rules ----------------------------------------------------------------------------------------------------------

void binary(Inference& n, Integers integers, Reals reals) {
  const Value& a = n.in(0);
  const Value& b = n.in(1);
  Extents shape = n.broadcast(a.shape, b.shape);
  std::optional<Content> content;
  if (a.content && b.content) content = combine(spread(a, shape), spread(b, shape), integers, reals, true);
  n.out(0, std::move(shape), a.type, std::move(content));
}

void comparison(Inference& n, Integers integers, Reals reals) {
  const Value& a = n.in(0);
  const Value& b = n.in(1);
  Extents shape = n.broadcast(a.shape, b.shape);
  std::optional<Content> content;
  if (a.content && b.content) content = combine(spread(a, shape), spread(b, shape), integers, reals, false);
  n.out(0, std::move(shape), DType::boolean, std::move(content));
}

void infer_add(Inference& n) {
  binary(n, checked_add, [](double a, double b) { return a + b; });
}
void infer_sub(Inference& n) {
  binary(n, subtract, [](double a, double b) { return a - b; });
}
void infer_mul(Inference& n) {
  binary(n, checked_mul, [](double a, double b) { return a * b; });
}
void infer_div(Inference& n) {
  binary(n, divide, [](double a, double b) { return a / b; });
}
void infer_mod(Inference& n) { binary(n, remainder, nullptr); }
void infer_pow(Inference& n) {
  const Value& a = n.in(0);
  const Value& b = n.in(1);
  if (a.content && b.content && a.content->real != b.content->real)  // a real to an integer power is not folded
    return n.out(0, n.broadcast(a.shape, b.shape), a.type);
  binary(n, power, [](double x, double y) { return std::pow(x, y); });
}
void infer_less(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return a < b; },
      [](double a, double b) { return a < b ? 1.0 : 0.0; });
}
void infer_less_or_equal(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return a <= b; },
      [](double a, double b) { return a <= b ? 1.0 : 0.0; });
}
void infer_greater(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return a > b; },
      [](double a, double b) { return a > b ? 1.0 : 0.0; });
}
void infer_greater_or_equal(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return a >= b; },
      [](double a, double b) { return a >= b ? 1.0 : 0.0; });
}
void infer_equal(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return a == b; },
      [](double a, double b) { return a == b ? 1.0 : 0.0; });
}
void infer_and(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != 0 && b != 0; }, nullptr);
}
void infer_or(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != 0 || b != 0; }, nullptr);
}
void infer_xor(Inference& n) {
  comparison(
      n, [](std::int64_t a, std::int64_t b) -> std::int64_t { return (a != 0) != (b != 0); }, nullptr);
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

std::int64_t to_integer(double x) {
  constexpr double kLimit = 9.2e18;
  return std::isnan(x) ? 0 : static_cast<std::int64_t>(std::clamp(std::trunc(x), -kLimit, kLimit));
}

std::optional<Content> converted(const std::optional<Content>& c, DType type) {
  if (!c) return std::nullopt;
  Content out;
  out.real = is_floating(type);
  for (std::size_t i = 0; i < c->size(); ++i) {
    const bool boolean = type == DType::boolean;
    if (c->real && out.real)
      out.reals.push_back(c->reals[i]);
    else if (c->real && boolean)
      out.integers.emplace_back(c->reals[i][0] != 0, c->reals[i][1] != 0);
    else if (c->real)
      out.integers.emplace_back(to_integer(c->reals[i][0]), to_integer(c->reals[i][1]));
    else if (out.real)
      out.reals.push_back({static_cast<double>(c->integers[i].at[0]), static_cast<double>(c->integers[i].at[1])});
    else if (boolean)
      out.integers.emplace_back(c->integers[i].at[0] != 0, c->integers[i].at[1] != 0);
    else
      out.integers.push_back(c->integers[i]);
  }
  return out;
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

// Norms of one scale for each number of the last dimension (decompose.h).
void infer_simplified_norm(Inference& n) {
  if (n.shape().empty() || n.shape(1) != Extents{n.shape().back()})
    n.fail("its scale " + to_string(n.shape(1)) + " is not of the last dimension of " + to_string(n.shape()));
  n.out(n.shape());
}

void infer_prelu(Inference& n) { n.out(n.broadcast(n.shape(0), n.shape(1))); }

// Operators whose result is shaped as their first input.
constexpr std::array<std::string_view, 33> kSameShape = {{"Relu",
                                                          "Sigmoid",
                                                          "HardSigmoid",
                                                          "HardSwish",
                                                          "LeakyRelu",
                                                          "Elu",
                                                          "Selu",
                                                          "Celu",
                                                          "Gelu",
                                                          "Erf",
                                                          "Tanh",
                                                          "Softplus",
                                                          "Softsign",
                                                          "Mish",
                                                          "Softmax",
                                                          "LogSoftmax",
                                                          "Clip",
                                                          "Abs",
                                                          "Sign",
                                                          "Trilu",
                                                          "CumSum",
                                                          "ScatterND",
                                                          "ScatterElements",
                                                          "InstanceNormalization",
                                                          "LRN",
                                                          "GroupNormalization",
                                                          "LpNormalization",
                                                          "Hardmax",
                                                          "Swish",
                                                          "RMSNormalization",
                                                          "RandomUniformLike",
                                                          "RandomNormalLike",
                                                          "Bernoulli"}};

}  // namespace

std::vector<NamedRule> pointwise_rules() {
  std::vector<NamedRule> rules = {
      {"Add", infer_add},
      {"Sub", infer_sub},
      {"Mul", infer_mul},
      {"Div", infer_div},
      {"Mod", infer_mod},
      {"Pow", infer_pow},
      {"Min", infer_min},
      {"Max", infer_max},
      {"Sum", infer_sum},
      {"Mean", infer_mean},
      {"Less", infer_less},
      {"LessOrEqual", infer_less_or_equal},
      {"Greater", infer_greater},
      {"GreaterOrEqual", infer_greater_or_equal},
      {"Equal", infer_equal},
      {"And", infer_and},
      {"Or", infer_or},
      {"Xor", infer_xor},
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
  for (const std::string_view op : kSameShape) rules.push_back({op, same_shape});
  return rules;
}

}  // namespace gpuplan::onnx_import
