// Operators that make tensors of the graph's own numbers.
#include <algorithm>
#include <cmath>

#include "tools/importers/onnx/contents.h"
#include "tools/importers/onnx/infer.h"

namespace gpuplan::onnx_import {
namespace {

Content integers_of(Extents list) {
  Content c;
  c.integers = std::move(list);
  return c;
}

void infer_constant(Inference& n) {
  if (const Value* const v = n.tensor("value")) return n.out(0, v->shape, v->type, v->content);
  Content c;
  if (n.has_attribute("value_int")) {
    c.integers = {n.integer("value_int", 0)};
    return n.out(0, {}, DType::int64, std::move(c));
  }
  if (n.has_attribute("value_ints")) {
    for (const std::int64_t i : n.integers("value_ints")) c.integers.emplace_back(i);
    const auto count = static_cast<std::int64_t>(c.integers.size());
    return n.out(0, {count}, DType::int64, std::move(c));
  }
  c.real = true;
  if (n.has_attribute("value_float")) {
    const double number = n.real("value_float", 0);
    c.reals = {{number, number}};
    return n.out(0, {}, DType::fp32, std::move(c));
  }
  if (n.has_attribute("value_floats")) {
    for (const double r : n.reals("value_floats")) c.reals.push_back({r, r});
    const auto count = static_cast<std::int64_t>(c.reals.size());
    return n.out(0, {count}, DType::fp32, std::move(c));
  }
  n.fail("a constant without a tensor or number");
}

void infer_constant_of_shape(Inference& n) {
  Extents shape = n.content(0, "its sizes");
  const Value* const value = n.tensor("value");
  const DType type = value != nullptr ? value->type : DType::fp32;
  if (!is_small(shape)) return n.out(0, std::move(shape), type);
  Content c;
  c.real = is_floating(type);
  const std::optional<Content>& given = value != nullptr ? value->content : std::nullopt;
  const auto count = static_cast<std::size_t>(product(shape).at[0]);
  if (given && given->size() != 1) n.fail("its value is not one number");
  if (c.real)
    c.reals.assign(count, given ? given->reals[0] : Real{});
  else
    c.integers.assign(count, given ? given->integers[0] : Extent());
  n.out(0, std::move(shape), type, std::move(c));
}

void infer_shape(Inference& n) {
  const Extents& x = n.shape();
  const auto rank = static_cast<std::int64_t>(x.size());
  const auto within = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const std::int64_t from = within(n.integer("start", 0));
  const std::int64_t to = std::max(from, within(n.integer("end", rank)));
  n.out(0, {to - from}, DType::int64, integers_of(Extents(x.begin() + from, x.begin() + to)));
}

void infer_size(Inference& n) { n.out(0, {}, DType::int64, integers_of({product(n.shape())})); }

void infer_range(Inference& n) {
  const std::optional<Content>& from = n.in(0).content;
  const std::optional<Content>& to = n.in(1).content;
  const std::optional<Content>& step = n.in(2).content;
  if (!from || !to || !step || from->size() != 1 || to->size() != 1 || step->size() != 1)
    n.fail("its bounds are not known without running the model");
  if (to->real != from->real || step->real != from->real) n.fail("its bounds are integers and reals");
  if (from->real) {
    const auto count = [&](std::size_t i) {
      const double c = std::ceil((to->reals[0][i] - from->reals[0][i]) / step->reals[0][i]);
      if (!(c < 1e9)) n.fail("a range without end");
      return static_cast<std::int64_t>(std::max(0.0, c));
    };
    return n.out(0, {{count(0), count(1)}}, n.in(0).type);
  }
  const auto count = [&](std::size_t i) {
    const std::int64_t by = step->integers[0].at[i];
    if (by == 0) n.fail("a range of steps of 0");
    const std::int64_t span = checked_add(to->integers[0].at[i], checked_mul(-1, from->integers[0].at[i]));
    return std::max<std::int64_t>(0,
                                  by > 0 ? ceil_div(span, by) : ceil_div(checked_mul(-1, span), checked_mul(-1, by)));
  };
  const Extents shape = {{count(0), count(1)}};
  if (!is_small(shape)) return n.out(0, shape, n.in(0).type);
  Extents list;
  for (std::int64_t i = 0; i < shape[0].at[0]; ++i) list.push_back(from->integers[0] + Extent(i) * step->integers[0]);
  n.out(0, shape, n.in(0).type, integers_of(std::move(list)));
}

// Where a constant is not zero: the places as rows of an index.
void infer_nonzero(Inference& n) {
  const Value& v = n.in(0);
  const std::optional<Content>& c = v.content;
  if (!c) n.fail("how many elements are not zero is not known without running the model");
  const std::vector<std::size_t> strides = strides_of(v.shape);
  std::vector<Extents> rows(v.shape.size());
  for (std::size_t i = 0; i < c->size(); ++i) {
    if (c->real ? c->reals[i][0] == 0 : c->integers[i].at[0] == 0) continue;
    for (std::size_t d = 0; d < rows.size(); ++d)
      rows[d].emplace_back(static_cast<std::int64_t>(i / strides[d] % static_cast<std::size_t>(v.shape[d].at[0])));
  }
  Extents all;
  for (const Extents& row : rows) all.insert(all.end(), row.begin(), row.end());
  const std::int64_t found = rows.empty() ? 0 : static_cast<std::int64_t>(rows.front().size());
  n.out(0, {static_cast<std::int64_t>(rows.size()), found}, DType::int64, integers_of(std::move(all)));
}

}  // namespace

std::vector<NamedRule> constant_rules() {
  return {{"Constant", infer_constant}, {"ConstantOfShape", infer_constant_of_shape},
          {"Shape", infer_shape},       {"Size", infer_size},
          {"Range", infer_range},       {"NonZero", infer_nonzero}};
}

}  // namespace gpuplan::onnx_import
