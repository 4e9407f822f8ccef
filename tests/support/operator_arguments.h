// What tests write of an operator: its name, and its arguments that are no tensors in the order of its row.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/operators/operators.h"

namespace gpuplan {

/// With or without "aten::"; from_host is to() of numbers that the host has.
inline Operator operator_named(std::string_view name) {
  if (name == "from_host") return Operator::from_host;
  for (std::size_t i = kOperators; i-- > 0;) {
    const auto op = static_cast<Operator>(i);
    if (name_of(op) == name || (name_of(op).starts_with("aten::") && name_of(op).substr(6) == name)) return op;
  }
  throw Error("no operator " + std::string(name));
}

/// Short forms: where(condition, x, {number, 1 or 2: which argument it is}); copy_ {dim, index} or {dim, start, step};
/// constant_pad_nd {before each dimension ..., after each ..., value}; fill_ {value, dim, start, size, dim, ...}.
/// What the row has not is left out: elu may be given what its gradient is.
inline std::vector<AttributeValue> by_name(Operator op, std::span<const double> numbers, std::size_t reads) {
  using enum Attribute;
  std::vector<AttributeValue> all;
  if (op == Operator::where && reads == 2 && numbers.size() == 2) return {{numbers[1] == 1 ? self : other, numbers[0]}};
  if (op == Operator::copy_ && numbers.size() == 2) return {{dim, numbers[0]}, {index, numbers[1]}};
  if (op == Operator::copy_ && numbers.size() == 3) return {{dim, numbers[0]}, {start, numbers[1]}, {step, numbers[2]}};
  if (op == Operator::constant_pad_nd) {
    const std::size_t rank = numbers.size() / 2;
    for (std::size_t i = 0; i < rank; ++i) all.insert(all.end(), {{before, numbers[i]}, {after, numbers[rank + i]}});
    all.emplace_back(value, numbers.back());
    return all;
  }
  if (op == Operator::from_host) {
    for (const double n : numbers) all.emplace_back(value, n);
    return all;
  }
  const auto& names = row_of(op).attributes;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i >= names.count && op != Operator::fill_) break;
    all.emplace_back(names.names[i < names.count ? i : 1 + (i - 1) % (names.count - 1)], numbers[i]);
  }
  return all;
}

}  // namespace gpuplan
