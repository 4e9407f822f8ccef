#include "estimator/base/strides.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gpuplan {
namespace {

constexpr std::array<int, 4> kChannelsLastOrder{1, 3, 2, 0};  // [N, C, H, W], from the fastest dimension on

// Dimensions from the fastest to the slowest, laid out without gaps.
Strides dense_in_order(const Shape& shape, std::span<const int> fastest_first) {
  Strides out;
  std::int64_t step = 1;
  for (const int d : fastest_first) {
    out.set(d, step);
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return out;
}

bool dense_when_visited(const Shape& shape, const Strides& strides, std::span<const int> fastest_first) {
  std::int64_t expected = 1;
  for (const int d : fastest_first) {
    if (shape[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

using Order = std::array<int, Shape::kMaxRank>;

// An operand's step along dimension `d` of the broadcast shape; 0 where it is repeated or absent.
std::int64_t step_along(const StridedShape& operand, const Shape& out, int d) {
  const int own = d - (out.rank() - operand.shape.rank());
  if (own < 0 || (operand.shape[own] == 1 && out[d] != 1)) return 0;
  return operand.strides[own];
}

// > 0: d0 is slower than d1; 0: undecided.
int compare_steps(const Shape& out, std::span<const StridedShape> operands, int d0, int d1) {
  for (const StridedShape& operand : operands) {
    const std::int64_t s0 = step_along(operand, out, d0);
    const std::int64_t s1 = step_along(operand, out, d1);
    if (s0 == 0 || s1 == 0) continue;
    if (s0 != s1) return s0 < s1 ? -1 : 1;
    if (out[d0] > out[d1]) return 1;
  }
  return 0;
}

}  // namespace

Strides contiguous_strides(const Shape& shape) {
  Strides out;
  std::int64_t step = 1;
  for (int i = shape.rank(); i-- > 0;) {
    out.set(i, step);
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return out;
}

Strides strides_in(MemoryFormat format, const Shape& shape) {
  return format == MemoryFormat::channels_last && shape.rank() == 4 ? dense_in_order(shape, kChannelsLastOrder)
                                                                    : contiguous_strides(shape);
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (int i = shape.rank(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  return shape.rank() == 4 && dense_when_visited(shape, strides, kChannelsLastOrder);
}

MemoryFormat suggested_format(const Shape& shape, const Strides& strides) {
  if (shape.rank() != 4 || strides[1] == 0) return MemoryFormat::contiguous;
  std::int64_t least = 0;
  for (const int d : kChannelsLastOrder) {
    if (strides[d] < least) return MemoryFormat::contiguous;
    // Both layouts fit N111 and the like; PyTorch then takes the row-major one.
    if (d == 0 && least == strides[1]) return MemoryFormat::contiguous;
    least = strides[d];
    if (shape[d] > 1) least *= shape[d];
  }
  return MemoryFormat::channels_last;
}

bool is_dense(const Shape& shape, const Strides& strides) {
  if (is_contiguous(shape, strides)) return true;
  Order order{};
  std::size_t n = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    std::size_t at = n++;
    for (; at > 0 && strides[order[at - 1]] > strides[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  return dense_when_visited(shape, strides, std::span<const int>(order.data(), n));
}

std::optional<Strides> view_strides(const Shape& from, const Strides& strides, const Shape& to) {
  Strides out;
  int view = to.rank() - 1;
  std::int64_t chunk_step = from.rank() > 0 ? strides[from.rank() - 1] : 1;
  std::int64_t elements = 1, viewed = 1;
  for (int d = from.rank() - 1; d >= 0; --d) {
    elements *= from[d];
    // Dimensions that follow each other without a gap form one chunk, which may be cut anew.
    const bool ends = d == 0 || (from[d - 1] != 1 && strides[d - 1] != elements * chunk_step);
    if (!ends) continue;
    while (view >= 0 && (viewed < elements || to[view] == 1)) {
      out.set(view, viewed * chunk_step);
      viewed *= to[view--];
    }
    if (viewed != elements) return std::nullopt;
    if (d > 0) {
      chunk_step = strides[d - 1];
      elements = viewed = 1;
    }
  }
  if (from.rank() == 0)
    for (; view >= 0; --view) out.set(view, 1);
  if (view != -1) return std::nullopt;
  return out;
}

Strides strides_like(const Shape& shape, const Strides& strides) {
  if (is_dense(shape, strides)) return strides;
  const StridedShape one{shape, strides};
  return pointwise_strides(shape, {&one, 1});
}

// Unlike there, the stride of a dimension of size 1 does not count: a plan's may be another than PyTorch's.
bool fits_cublas(const StridedShape& matrix) {
  const int rows = matrix.shape.rank() - 2, columns = rows + 1;
  const auto follow = [&](int inner, int outer) {
    const bool no_gaps = matrix.shape[inner] == 1 || matrix.strides[inner] == 1;
    return no_gaps && (matrix.shape[outer] == 1 || matrix.strides[outer] >= matrix.shape[inner]);
  };
  return follow(columns, rows) || follow(rows, columns);
}

Strides pointwise_strides(const Shape& out, std::span<const StridedShape> operands) {
  const auto all = [&](auto rule) {
    return std::ranges::all_of(operands,
                               [&](const StridedShape& o) { return o.shape == out && rule(o.shape, o.strides); });
  };
  if (operands.empty() || all([](const Shape& s, const Strides& t) { return is_contiguous(s, t); }))
    return contiguous_strides(out);
  if (all([](const Shape& s, const Strides& t) { return is_channels_last(s, t); }))
    return strides_in(MemoryFormat::channels_last, out);
  if (all([&](const Shape& s, const Strides& t) { return t == operands[0].strides && is_dense(s, t); }))
    return operands[0].strides;
  Order order{};
  const int rank = out.rank();
  for (int i = 0; i < rank; ++i) order[static_cast<std::size_t>(i)] = rank - 1 - i;
  for (int i = 1; i < rank; ++i) {  // insertion sort; undecided pairs are skipped over, not swapped
    int moving = i;
    for (int at = i - 1; at >= 0; --at) {
      int& slow = order[static_cast<std::size_t>(at)];
      int& fast = order[static_cast<std::size_t>(moving)];
      const int comparison = compare_steps(out, operands, slow, fast);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(slow, fast);
      moving = at;
    }
  }
  return dense_in_order(out, {order.data(), static_cast<std::size_t>(rank)});
}

}  // namespace gpuplan
