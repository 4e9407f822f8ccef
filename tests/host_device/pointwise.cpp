// Arithmetic, comparisons, activations and dropout, of each element.
#include <array>
#include <cmath>
#include <numbers>

#include "tests/host_device/operation.h"
#include "validate/executor/random.h"

namespace gpuplan::host {
namespace {

// f(a, b), or f(a, {b}).
template <class F>
void binary(const Kernel& k, F&& f) {
  if (k.reads.size() > 1) return each_pair(k, f);
  each(k, [&, b = k.number(Attribute::other)](double a) { return f(a, b); });
}

constexpr auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };

double gelu(double x, bool tanh) {
  if (!tanh) return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / 2 * (1 + std::tanh(u));
}

bool approximates(const Kernel& k) { return k.number(Attribute::approximate) != 0; }

void masked_fill(const Kernel& k) {
  each_pair(k, [value = k.number(Attribute::value)](double x, double mask) { return mask != 0 ? value : x; });
}

// With a number for an operand it may write that, too.
void where(const Kernel& k) {
  const KernelTensor& y = target(k);
  const std::vector<std::int64_t> sizes = sizes_of(y);
  const Values condition = read(k.reads[0], sizes);
  Values on = zeros(sizes), off = on;
  if (k.reads.size() > 2) {
    on = read(k.reads[1], sizes), off = read(k.reads[2], sizes);
  } else if (k.reads.size() == 1) {
    for (double& v : on.at) v = k.number(Attribute::self);
    for (double& v : off.at) v = k.number(Attribute::other);
  } else {
    const bool first = k.has(Attribute::self);
    const double number = k.number(first ? Attribute::self : Attribute::other);
    (first ? off : on) = read(k.reads[1], sizes);
    for (double& v : (first ? on : off).at) v = number;
    if (k.writes.size() > 1) store(k.writes[0], 0, number);
  }
  Values out = zeros(sizes);
  for (std::int64_t i = 0; i < out.count(); ++i) out[i] = condition[i] != 0 ? on[i] : off[i];
  write(y, out);
}

void dropout(const Kernel& k) {
  const double p = k.number(Attribute::p);
  Values x = read(k.reads[0]), mask = zeros(x.sizes);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    mask[i] = keeps(k.seed, static_cast<std::uint64_t>(i), p) ? 1 : 0;
    x[i] *= mask[i] / (1 - p);
  }
  write(k.writes[0], mask);
  write(k.writes[1], x);
}

// 1 with probability {p}, by the same numbers as dropout's; else 0.
void bernoulli(const Kernel& k) {
  Values x = zeros(sizes_of(k.writes[0]));
  for (std::int64_t i = 0; i < x.count(); ++i)
    x[i] = keeps(k.seed, static_cast<std::uint64_t>(i), 1 - k.number(Attribute::p)) ? 1 : 0;
  write(k.writes[0], x);
}

void tril(const Kernel& k) {
  Values x = read(k.reads[0]);
  const Lines rows = lines(k.reads[0], k.reads[0].rank - 1);
  const std::int64_t height = k.reads[0].sizes[k.reads[0].rank - 2];
  for (std::int64_t r = 0; r < rows.outer; ++r)
    for (std::int64_t c = r % height + 1; c < rows.size; ++c) x[rows.index(r, c, 0)] = 0;
  write(target(k), x);
}

template <auto F>
void unary(const Kernel& k) {
  each(k, F);
}
template <auto F>
void two(const Kernel& k) {
  binary(k, F);
}

constexpr auto add = [](double a, double b) { return a + b; };
constexpr auto sub = [](double a, double b) { return a - b; };
constexpr auto reversed_sub = [](double a, double b) { return b - a; };
constexpr auto mul = [](double a, double b) { return a * b; };
constexpr auto div = [](double a, double b) { return a / b; };
constexpr auto eq = [](double a, double b) { return a == b ? 1.0 : 0.0; };
constexpr auto ne = [](double a, double b) { return a != b ? 1.0 : 0.0; };
constexpr auto le = [](double a, double b) { return a <= b ? 1.0 : 0.0; };
constexpr auto lt = [](double a, double b) { return a < b ? 1.0 : 0.0; };
constexpr auto ge = [](double a, double b) { return a >= b ? 1.0 : 0.0; };
constexpr auto gt = [](double a, double b) { return a > b ? 1.0 : 0.0; };
constexpr auto both = [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; };
constexpr auto least = [](double a, double b) { return std::isnan(a) || a < b ? a : b; };
constexpr auto floor_divided = [](double a, double b) { return std::floor(a / b); };
constexpr auto absolute = [](double x) { return std::abs(x); };
constexpr auto sign = [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; };
constexpr auto log = [](double x) { return std::log(x); };
constexpr auto neg = [](double x) { return -x; };
constexpr auto exp = [](double x) { return std::exp(x); };
constexpr auto sin = [](double x) { return std::sin(x); };
constexpr auto cos = [](double x) { return std::cos(x); };
constexpr auto tanh = [](double x) { return std::tanh(x); };
// A NaN stays one.
constexpr auto relu = [](double x) { return x < 0 ? 0 : x; };
constexpr auto silu = [](double x) { return x * sigmoid(x); };
constexpr auto rsqrt = [](double x) { return 1 / std::sqrt(x); };
constexpr auto same = [](double x) { return x; };
constexpr auto hardsigmoid = [](double x) { return std::isnan(x) ? x : std::fmin(std::fmax(x + 3, 0), 6) / 6; };
constexpr auto hardswish = [](double x) { return x * hardsigmoid(x); };

void from_host(const Kernel& k) {
  std::vector<double> values;
  for (const AttributeValue& a : k.attributes) values.push_back(a.value);
  write(k.writes[0], {sizes_of(k.writes[0]), values});
}
void pow(const Kernel& k) {
  each(k, [e = k.number(Attribute::exponent)](double x) { return std::pow(x, e); });
}
void hardtanh(const Kernel& k) {
  each(k, [low = k.number(Attribute::min_val), high = k.number(Attribute::max_val)](double x) {
    return x < low ? low : x > high ? high : x;
  });
}
void leaky_relu(const Kernel& k) {
  each(k, [slope = k.number(Attribute::negative_slope)](double x) { return x > 0 ? x : slope * x; });
}
void elu(const Kernel& k) {
  each(k, [alpha = k.number(Attribute::alpha)](double x) { return x > 0 ? x : alpha * std::expm1(x); });
}
void gelu_forward(const Kernel& k) {
  each(k, [t = approximates(k)](double x) { return gelu(x, t); });
}

constexpr std::array kOperations{Operation{Operator::add, two<add>, 1, 1, true},
                                 Operation{Operator::add_, two<add>, 1, 1, true},
                                 Operation{Operator::sub, two<sub>, 1, 1, true},
                                 Operation{Operator::sub_, two<sub>, 1, 1, true},
                                 Operation{Operator::rsub, two<reversed_sub>, 1, 1, true},
                                 Operation{Operator::mul, two<mul>, 1, 1, true},
                                 Operation{Operator::mul_, two<mul>, 1, 1, true},
                                 Operation{Operator::div, two<div>, 1, 1, true},
                                 Operation{Operator::div_, two<div>, 1, 1, true},
                                 Operation{Operator::eq, two<eq>, 1, 1, true},
                                 Operation{Operator::ne, two<ne>, 1, 1, true},
                                 Operation{Operator::le, two<le>, 1, 1, true},
                                 Operation{Operator::lt, two<lt>, 1, 1, true},
                                 Operation{Operator::ge, two<ge>, 1, 1, true},
                                 Operation{Operator::gt, two<gt>, 1, 1, true},
                                 Operation{Operator::bit_and, two<both>, 2},
                                 Operation{Operator::min, two<least>, 2},
                                 Operation{Operator::floor_divide, two<floor_divided>, 1, 1, true},
                                 Operation{Operator::abs, unary<absolute>, 1},
                                 Operation{Operator::sgn, unary<sign>, 1},
                                 Operation{Operator::log, unary<log>, 1},
                                 Operation{Operator::neg, unary<neg>, 1},
                                 Operation{Operator::neg_, unary<neg>, 1},
                                 Operation{Operator::exp, unary<exp>, 1},
                                 Operation{Operator::exp_, unary<exp>, 1},
                                 Operation{Operator::sin, unary<sin>, 1},
                                 Operation{Operator::cos, unary<cos>, 1},
                                 Operation{Operator::tanh, unary<tanh>, 1},
                                 Operation{Operator::tanh_, unary<tanh>, 1},
                                 Operation{Operator::relu, unary<relu>, 1},
                                 Operation{Operator::relu_, unary<relu>, 1},
                                 Operation{Operator::silu, unary<silu>, 1},
                                 Operation{Operator::silu_, unary<silu>, 1},
                                 Operation{Operator::sigmoid, unary<sigmoid>, 1},
                                 Operation{Operator::sigmoid_, unary<sigmoid>, 1},
                                 Operation{Operator::rsqrt, unary<rsqrt>, 1},
                                 Operation{Operator::to, unary<same>, 1},
                                 Operation{Operator::from_host, from_host},
                                 Operation{Operator::hardswish, unary<hardswish>, 1},
                                 Operation{Operator::hardswish_, unary<hardswish>, 1},
                                 Operation{Operator::hardsigmoid, unary<hardsigmoid>, 1},
                                 Operation{Operator::hardsigmoid_, unary<hardsigmoid>, 1},
                                 Operation{Operator::pow, pow, 1, 1},
                                 Operation{Operator::hardtanh, hardtanh, 1, 2},
                                 Operation{Operator::hardtanh_, hardtanh, 1, 2},
                                 Operation{Operator::leaky_relu, leaky_relu, 1, 1},
                                 Operation{Operator::leaky_relu_, leaky_relu, 1, 1},
                                 Operation{Operator::elu, elu, 1, 1},
                                 Operation{Operator::elu_, elu, 1, 1},
                                 Operation{Operator::gelu, gelu_forward, 1},
                                 Operation{Operator::masked_fill, masked_fill, 2, 1},
                                 Operation{Operator::masked_fill_, masked_fill, 2, 1},
                                 Operation{Operator::where, where, 1, 2, true},
                                 Operation{Operator::native_dropout, dropout, 1, 1},
                                 Operation{Operator::bernoulli_, bernoulli, 0, 1},
                                 Operation{Operator::tril, tril, 1}};

}  // namespace

std::span<const Operation> pointwise_operations() { return kOperations; }

}  // namespace gpuplan::host
