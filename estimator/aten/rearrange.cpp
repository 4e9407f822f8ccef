#include "estimator/aten/rearrange.h"

#include <algorithm>
#include <string>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/base/integers.h"
#include "estimator/operators/cub.h"

namespace gpuplan::aten {
namespace {

// The keys are sorted by the bits that row numbers have, in 2.8 and in 2.15.
OpaqueKernel index_put(const LayerBuilder& b, std::int64_t indices, const Shape& rows, DType dtype) {
  const std::int64_t elements = checked_mul(indices, rows[1]);
  const std::int64_t sort = cub_sort_bytes(indices, std::max<std::int64_t>(rows[0] - 1, 1), b.gpu(), kNewestPyTorch);
  return aten::index_put(indices, checked_mul(elements, size_of(dtype)), sort, elements);
}

}  // namespace

TensorId roll(LayerBuilder& b, TensorId x, std::span<const Roll1d> rolls) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Copy copy{shape.elements()};
  TensorId y = x;
  for (const Roll1d& roll : rolls) {
    // The caller's argument lives until the last dimension is rolled.
    y = y == x ? b.emit(Operator::roll, copy, {x}, shape, dtype) : b.emit(Operator::roll, copy, {y, x}, shape, dtype);
    b.attributes({{Attribute::shift, roll.shift}, {Attribute::dim, roll.dimension}});
  }
  if (NodeBuilder node = b.node("RollBackward0", y, {x})) {
    Operand dx = node.grad();
    for (std::size_t i = rolls.size(); i-- > 0;) {
      dx = node.run(Operator::roll, copy, {dx}, shape, dtype);
      node.attributes({{Attribute::shift, -rolls[i].shift}, {Attribute::dim, rolls[i].dimension}});
    }
    node.give(x, dx);
  }
  return y;
}

TensorId constant_pad(LayerBuilder& b, TensorId x, std::span<const Padding1d> sides, double value) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  Shape out = in;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const int dim = -1 - static_cast<int>(i);
    const std::int64_t size = checked_add(checked_add(in[dim], sides[i].before), sides[i].after);
    if (size < 1) b.fail("padding cuts a dimension of " + std::to_string(in[dim]) + " to " + std::to_string(size));
    out.set(dim, size);
  }
  // What is only cut is a copy of that part (PadNd.cpp, constant_pad_nd).
  const auto adds = [&](int sign) {
    return std::ranges::any_of(sides, [&](const Padding1d& s) { return sign * s.before > 0 || sign * s.after > 0; });
  };
  const Strides strides = adds(1) ? strides_in(b.suggested_format(x), out) : strides_like(out, b.strides(x));
  // Before and after each dimension; of the gradient as much is cut off.
  std::vector<AttributeValue> padding{{Attribute::value, value}}, cut{{Attribute::value, 0}};
  for (int i = in.rank(); i-- > 0;) {
    const auto at = static_cast<std::size_t>(i);
    const Padding1d side = at < sides.size() ? sides[at] : Padding1d{};
    padding.insert(padding.end(), {{Attribute::before, side.before}, {Attribute::after, side.after}});
    cut.insert(cut.end(), {{Attribute::before, -side.before}, {Attribute::after, -side.after}});
  }
  const TensorId y =
      b.emit(Operator::constant_pad_nd, Copy{out.elements()}, {x}, {out, dtype, Placing::given, strides});
  b.attributes(padding);
  if (NodeBuilder node = b.node("ConstantPadNdBackward0", y, {x})) {
    const Placing placing = adds(-1) ? Placing::suggested : Placing::like;
    node.give(x, node.run(Operator::constant_pad_nd, Copy{in.elements()}, {node.grad()}, {in, dtype, placing}));
    node.attributes(cut);
  }
  return y;
}

TensorId index_rows(LayerBuilder& b, TensorId table, TensorId index) {
  const Shape rows = b.shape(table);
  const DType dtype = b.dtype(table);
  const std::int64_t indices = b.elements(index);
  const Shape out{indices, rows[1]};
  const TensorId y = b.emit(Operator::index, Copy{out.elements()}, {table, index}, out, dtype);
  if (NodeBuilder node = b.node("IndexBackward0", y, {table})) {
    const Operand sum = node.run(Operator::new_zeros, Fill{rows.elements()}, {}, rows, dtype);
    node.run_in_place(Operator::_index_put_impl_, index_put(b, indices, rows, dtype), {sum, node.grad(), index});
    node.give(table, sum);
  }
  return y;
}

}  // namespace gpuplan::aten
