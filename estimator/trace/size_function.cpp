#include "estimator/trace/size_function.h"

#include <algorithm>
#include <numeric>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

// A fraction in lowest terms, divisor > 0. Throws Error where it does not fit in 64 bits.
struct Fraction {
  std::int64_t over = 0, under = 1;
};

Fraction fraction(std::int64_t over, std::int64_t under) {
  const std::int64_t common = std::gcd(over, under);
  if (common > 1) over /= common, under /= common;
  return under < 0 ? Fraction{checked_mul(over, -1), checked_mul(under, -1)} : Fraction{over, under};
}
Fraction operator*(Fraction a, Fraction b) {
  const Fraction left = fraction(a.over, b.under), right = fraction(b.over, a.under);
  return fraction(checked_mul(left.over, right.over), checked_mul(left.under, right.under));
}
Fraction operator+(Fraction a, Fraction b) {
  const std::int64_t common = std::gcd(a.under, b.under);
  const std::int64_t under = checked_mul(a.under / common, b.under);
  return fraction(checked_add(checked_mul(a.over, b.under / common), checked_mul(b.over, a.under / common)), under);
}
Fraction operator-(Fraction a, Fraction b) { return a + Fraction{-b.over, b.under}; }

// Coefficients, lowest power first, of the polynomial through (nodes[i], y[i]): Newton's divided differences.
std::vector<Fraction> interpolate(std::span<const std::int64_t> nodes, std::vector<Fraction> y) {
  const std::size_t n = nodes.size();
  for (std::size_t order = 1; order < n; ++order)
    for (std::size_t i = n - 1; i >= order; --i) y[i] = (y[i] - y[i - 1]) * fraction(1, nodes[i] - nodes[i - order]);
  std::vector<Fraction> result(n);  // Horner: result = result * (x - node) + y
  for (std::size_t at = n; at-- > 0;) {
    for (std::size_t power = n - 1; power > 0; --power)
      result[power] = result[power - 1] - result[power] * Fraction{nodes[at]};
    result[0] = y[at] - result[0] * Fraction{nodes[at]};
  }
  return result;
}

// The values that determine a polynomial: the first, the last and one between them, as many as its degree needs.
std::vector<std::int64_t> nodes_of(const TraceVariable& variable) {
  const std::size_t needed = std::min(degree_of(variable) + 1, variable.values.size());
  std::vector<std::int64_t> nodes = {variable.values.front()};
  if (needed > 2) nodes.push_back(variable.values[variable.values.size() / 2]);
  if (needed > 1) nodes.push_back(variable.values.back());
  return nodes;
}

using Coefficients = std::array<std::array<Fraction, kMaxDegree + 1>, kMaxDegree + 1>;

std::optional<Coefficients> through_the_grid(std::span<const TraceVariable> variables,
                                             std::span<const std::vector<std::int64_t>> values,
                                             std::span<const std::int64_t> points) {
  const auto point_at = [&](const std::vector<std::int64_t>& where) -> const std::int64_t* {
    const auto found = std::ranges::find(values, where);
    return found == values.end() ? nullptr : &points[static_cast<std::size_t>(found - values.begin())];
  };
  const std::vector<std::int64_t> first = nodes_of(variables[0]);
  const std::vector<std::int64_t> second = variables.size() > 1 ? nodes_of(variables[1]) : std::vector<std::int64_t>{0};
  std::vector<std::vector<Fraction>> along_second;  // by first node
  for (const std::int64_t x : first) {
    std::vector<Fraction> y;
    for (const std::int64_t z : second) {
      const std::int64_t* const point =
          point_at(variables.size() > 1 ? std::vector<std::int64_t>{x, z} : std::vector<std::int64_t>{x});
      if (point == nullptr) return std::nullopt;
      y.push_back({*point});
    }
    along_second.push_back(interpolate(second, y));
  }
  Coefficients found{};
  for (std::size_t k = 0; k < second.size(); ++k) {
    std::vector<Fraction> y;
    for (const std::vector<Fraction>& row : along_second) y.push_back(row[k]);
    const std::vector<Fraction> column = interpolate(first, y);
    for (std::size_t i = 0; i < first.size(); ++i) found[i][k] = column[i];
  }
  return found;
}

SizeFunction with_common_divisor(const Coefficients& coefficients) {
  SizeFunction function;
  for (const auto& row : coefficients)
    for (const Fraction& c : row)
      function.divisor = checked_mul(function.divisor / std::gcd(function.divisor, c.under), c.under);
  for (std::size_t i = 0; i < coefficients.size(); ++i)
    for (std::size_t k = 0; k < coefficients[i].size(); ++k)
      function.coefficient[i][k] = checked_mul(coefficients[i][k].over, function.divisor / coefficients[i][k].under);
  return function;
}

// What the divisor divides.
std::int64_t numerator_at(const SizeFunction& function, std::span<const std::int64_t> values) {
  const std::int64_t first = values[0], second = values.size() > 1 ? values[1] : 0;
  std::int64_t total = 0;
  for (std::size_t i = function.coefficient.size(); i-- > 0;) {  // Horner in both
    std::int64_t row = 0;
    for (std::size_t k = function.coefficient[i].size(); k-- > 0;)
      row = checked_add(checked_mul(row, second), function.coefficient[i][k]);
    total = checked_add(checked_mul(total, first), row);
  }
  return total;
}

// A coefficient of each of the highest power and of all below, with no value to spare: any points would have given one.
bool only_just_determined(const SizeFunction& function, std::span<const TraceVariable> variables) {
  const auto& c = function.coefficient;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    const std::size_t degree = degree_of(variables[v]);
    if (variables[v].values.size() > degree + 1) continue;
    for (std::size_t other = 0; other <= kMaxDegree; ++other)
      if ((v == 0 ? c[degree][other] : c[other][degree]) != 0) return true;
  }
  return false;
}

}  // namespace

std::size_t degree_of(const TraceVariable& variable) { return variable.name == "batch" ? 1 : kMaxDegree; }

std::optional<FittedSize> fit_size(std::span<const TraceVariable> variables,
                                   std::span<const std::vector<std::int64_t>> values,
                                   std::span<const std::int64_t> points) {
  try {
    const auto coefficients = through_the_grid(variables, values, points);
    if (!coefficients) return std::nullopt;
    const SizeFunction function = with_common_divisor(*coefficients);
    for (std::size_t i = 0; i < points.size(); ++i)
      if (!is_whole_at(function, values[i]) || size_at(function, values[i]) != points[i]) return std::nullopt;
    return FittedSize{.function = function, .checked = !only_just_determined(function, variables)};
  } catch (const Error&) {
    return std::nullopt;  // coefficients beyond 64 bits are nobody's sizes
  }
}

std::int64_t size_at(const SizeFunction& function, std::span<const std::int64_t> values) {
  const std::int64_t over = numerator_at(function, values);
  if (over < 0) throw Error("a size would be below 0");
  return over / function.divisor + (over % function.divisor != 0 ? 1 : 0);
}

bool is_whole_at(const SizeFunction& function, std::span<const std::int64_t> values) {
  return numerator_at(function, values) % function.divisor == 0;
}

std::vector<std::vector<std::int64_t>> runs_to_learn(std::span<const TraceVariable> variables) {
  std::vector<std::vector<std::int64_t>> runs;
  if (variables.size() == 1) {
    for (const std::int64_t value : variables[0].values) runs.push_back({value});
    return runs;
  }
  const auto middle = [](const TraceVariable& v) { return v.values[v.values.size() / 2]; };
  const std::vector<std::int64_t> first = nodes_of(variables[0]), second = nodes_of(variables[1]);
  for (const std::int64_t x : first)
    for (const std::int64_t z : second) runs.push_back({x, z});
  const auto add = [&](std::vector<std::int64_t> run) {
    if (std::ranges::find(runs, run) == runs.end()) runs.push_back(std::move(run));
  };
  for (const std::int64_t x : variables[0].values)
    if (std::ranges::find(first, x) == first.end()) add({x, middle(variables[1])});
  for (const std::int64_t z : variables[1].values)
    if (std::ranges::find(second, z) == second.end()) add({middle(variables[0]), z});
  return runs;
}

}  // namespace gpuplan
