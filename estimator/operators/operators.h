// The closed set of operators that a graph's operations use, and their non-tensor arguments. Each operator is declared
// by one row of operators.inc; code that runs operators must have a function for every row of a family, or it does not
// compile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>

namespace gpuplan {

/// Name of a non-tensor argument. An argument with one value per dimension is given once per dimension.
enum class Attribute : std::uint8_t {
  // clang-format off
  other, self, value, exponent, min, max, min_val, max_val, negative_slope, alpha, is_result, approximate, beta,
  threshold, p, dim, dims, start, end, size, step, index, before, after, shift, diagonal, ord, k, ignore_index,
  reduction, bend, gradient_of, transposed, momentum, eps, wants_input, wants_weight, wants_bias, kernel_h, kernel_w,
  stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w, count_include_pad, divisor_override, step_h, step_w,
  align_corners, scale, is_causal, dropout_p, dropout
  // clang-format on
};

struct AttributeValue {
  Attribute name;
  double value;

  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr AttributeValue(Attribute of, T is) : name(of), value(static_cast<double>(is)) {}
  bool operator==(const AttributeValue&) const = default;
};

/// The n-th of that name; null where there are not so many.
constexpr const AttributeValue* find_attribute(std::span<const AttributeValue> all, Attribute name, int n = 0) {
  for (const AttributeValue& a : all)
    if (a.name == name && n-- == 0) return &a;
  return nullptr;
}

/// Which part of a device runs an operator; nothing does yet where it is `planned`.
enum class OperatorFamily : std::uint8_t {
  planned,
  pointwise,
  copies,
  products,
  convolutions,
  reductions,
  batch_norms,
  normalizations,
  pooling,
  lookups,
  attention,
  losses,
  routing,
  recurrent
};

enum class Operator : std::uint16_t {
#define OPERATOR(id, ...) id,
#include "estimator/operators/operators.inc"
};

struct OperatorRow {
  std::string_view name;
  OperatorFamily family;
  int flops;
  std::string_view operands;
  struct Names {
    std::array<Attribute, 8> names{};
    std::size_t count = 0;
    constexpr const Attribute* begin() const { return names.data(); }
    constexpr const Attribute* end() const { return names.data() + count; }
  } attributes;
};

namespace operators {

using enum Attribute;
using enum OperatorFamily;

template <class... T>
constexpr OperatorRow::Names attributes(T... names) {
  return {{names...}, sizeof...(names)};
}

inline constexpr OperatorRow kRows[] = {
#define OPERATOR(id, ...) OperatorRow{__VA_ARGS__},
#include "estimator/operators/operators.inc"
};

}  // namespace operators

constexpr std::size_t kOperators = std::size(operators::kRows);
constexpr const OperatorRow& row_of(Operator op) { return operators::kRows[static_cast<std::size_t>(op)]; }
/// PyTorch's, "aten::add_".
constexpr std::string_view name_of(Operator op) { return row_of(op).name; }
constexpr bool takes(Operator op, Attribute name) {
  for (const Attribute a : row_of(op).attributes)
    if (a == name) return true;
  return false;
}

/// Whether the table of a family, sorted or not, has each of its operators once and none of another one.
template <class Entries>
constexpr bool is_whole_family(const Entries& entries, OperatorFamily family) {
  std::array<int, kOperators> seen{};
  for (const auto& e : entries) ++seen[static_cast<std::size_t>(e.op)];
  for (std::size_t i = 0; i < kOperators; ++i)
    if (seen[i] != (operators::kRows[i].family == family ? 1 : 0)) return false;
  return true;
}

}  // namespace gpuplan
