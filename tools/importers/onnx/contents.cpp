#include "tools/importers/onnx/contents.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpuplan::onnx_import {
namespace {

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

std::int64_t to_integer(double x) {
  constexpr double kLimit = 9.2e18;
  return std::isnan(x) ? 0 : static_cast<std::int64_t>(std::clamp(std::trunc(x), -kLimit, kLimit));
}

}  // namespace

std::optional<Content> pick(const std::optional<Content>& from, const std::vector<std::size_t>& places) {
  if (!from) return std::nullopt;
  Content out;
  out.real = from->real;
  for (const std::size_t p : places) {
    if (from->real)
      out.reals.push_back(from->reals[p]);
    else
      out.integers.push_back(from->integers[p]);
  }
  return out;
}

std::vector<std::size_t> strides_of(const Extents& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i].at[0]);
  return strides;
}

std::optional<Content> spread(const Value& v, const Extents& to) {
  if (!v.content || !is_small(to) || !is_small(v.shape)) return std::nullopt;
  return pick(v.content, broadcast_places(v.shape, to));
}

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

std::optional<Content> map_reals(const std::optional<Content>& a, double (*apply)(double)) {
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

}  // namespace gpuplan::onnx_import
