#include "estimator/aten/views.h"

#include <algorithm>
#include <array>
#include <string>

#include "estimator/aten/promote.h"
#include "estimator/base/integers.h"

namespace gpuplan::aten {
namespace {

using Order = std::array<int, Shape::kMaxRank>;

int wrapped(int dim, int rank) { return dim < 0 ? dim + rank : dim; }

// A view whose gradient is the incoming one under the old shape.
TensorId reshaped(LayerBuilder& b, TensorId x, const Shape& shape, const Strides& strides, std::string_view name) {
  const Shape in = b.shape(x);
  const TensorId y = b.alias(x, shape, strides);
  if (NodeBuilder node = b.node(name, y, {x})) node.give(x, node.reshape(node.grad(), in));
  return y;
}

Shape without(const Shape& shape, int dim) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != dim) out.push_back(shape[i]);
  return out;
}

Shape with(const Shape& shape, int dim, std::int64_t size) {
  Shape out;
  for (int i = 0; i <= shape.rank(); ++i) {
    if (i == dim) out.push_back(size);
    if (i < shape.rank()) out.push_back(shape[i]);
  }
  return out;
}

Strides without(const Strides& strides, int dim, int rank) {
  Strides out;
  for (int i = 0, k = 0; i < rank; ++i)
    if (i != dim) out.set(k++, strides[i]);
  return out;
}

}  // namespace

TensorId view(LayerBuilder& b, TensorId x, const Shape& shape) {
  const std::optional<Strides> strides = view_strides(b.shape(x), b.strides(x), shape);
  if (!strides)
    b.fail("a view of " + to_string(b.shape(x)) + " as " + to_string(shape) +
           " would need its elements in another order in memory; PyTorch refuses it (use Reshape, which copies)");
  return reshaped(b, x, shape, *strides, "ViewBackward0");
}

TensorId clone(LayerBuilder& b, TensorId x) {
  const Shape shape = b.shape(x);
  const TensorId y = b.emit(Operator::clone, Copy{shape.elements()}, {x}, {shape, b.dtype(x), Placing::like});
  if (NodeBuilder node = b.node("CloneBackward0", y, {x})) node.give(x, node.grad());
  return y;
}

TensorId contiguous(LayerBuilder& b, TensorId x, MemoryFormat format) {
  const Shape shape = b.shape(x);
  const bool there = format == MemoryFormat::contiguous ? b.contiguous(x) : is_channels_last(shape, b.strides(x));
  if (there) return x;
  const Placing placing = format == MemoryFormat::contiguous ? Placing::contiguous : Placing::channels_last;
  const TensorId y = b.emit(Operator::clone, Copy{shape.elements()}, {x}, {shape, b.dtype(x), placing});
  if (NodeBuilder node = b.node("CloneBackward0", y, {x})) node.give(x, node.grad());
  return y;
}

TensorId reshape(LayerBuilder& b, TensorId x, const Shape& shape) {
  if (const std::optional<Strides> strides = view_strides(b.shape(x), b.strides(x), shape))
    return reshaped(b, x, shape, *strides, b.before(200) ? "ReshapeAliasBackward0" : "ViewBackward0");
  const TensorId copy = contiguous(b, x);
  return reshaped(b, copy, shape, contiguous_strides(shape), "UnsafeViewBackward0");
}

TensorId flatten(LayerBuilder& b, TensorId x, int from, int to) {
  if (from == to) return x;
  const Shape in = b.shape(x);
  Shape out;
  for (int i = 0; i < from; ++i) out.push_back(in[i]);
  out.push_back(in.elements(from, to + 1));
  for (int i = to + 1; i < in.rank(); ++i) out.push_back(in[i]);
  return reshape(b, x, out);
}

TensorId permute(LayerBuilder& b, TensorId x, std::span<const int> order) {
  const Shape in = b.shape(x);
  const Strides steps = b.strides(x);
  Shape out;
  Strides strides;
  Order inverse{};
  for (std::size_t i = 0; i < order.size(); ++i) {
    out.push_back(in[order[i]]);
    strides.set(static_cast<int>(i), steps[order[i]]);
    inverse[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  }
  const TensorId y = b.alias(x, out, strides);
  if (NodeBuilder node = b.node("PermuteBackward0", y, {x}))
    node.give(x, node.permute(node.grad(), std::span<const int>(inverse.data(), order.size())));
  return y;
}

TensorId permute(LayerBuilder& b, TensorId x, std::initializer_list<int> order) {
  return permute(b, x, std::span(order.begin(), order.size()));
}

TensorId transpose(LayerBuilder& b, TensorId x, int first, int second) {
  const Shape in = b.shape(x);
  const Strides steps = b.strides(x);
  first = wrapped(first, in.rank());
  second = wrapped(second, in.rank());
  Shape out = in;
  Strides strides = steps;
  out.set(first, in[second]);
  out.set(second, in[first]);
  strides.set(first, steps[second]);
  strides.set(second, steps[first]);
  Order order{};
  for (int i = 0; i < in.rank(); ++i)
    order[static_cast<std::size_t>(i)] = i == first ? second : i == second ? first : i;
  const TensorId y = b.alias(x, out, strides);
  if (NodeBuilder node = b.node(in.rank() == 2 ? "TBackward0" : "TransposeBackward0", y, {x}))
    node.give(x, node.permute(node.grad(), std::span<const int>(order.data(), static_cast<std::size_t>(in.rank()))));
  return y;
}

TensorId unsqueeze(LayerBuilder& b, TensorId x, int dim) {
  const Shape in = b.shape(x);
  dim = wrapped(dim, in.rank() + 1);
  const Shape out = with(in, dim, 1);
  Strides strides;
  for (int i = 0, k = 0; i < out.rank(); ++i)
    strides.set(i, i != dim ? b.strides(x)[k++] : dim < in.rank() ? in[dim] * b.strides(x)[dim] : 1);
  return reshaped(b, x, out, strides, "UnsqueezeBackward0");
}

TensorId squeeze(LayerBuilder& b, TensorId x, int dim) {
  const Shape in = b.shape(x);
  dim = wrapped(dim, in.rank());
  if (in[dim] != 1) return reshaped(b, x, in, b.strides(x), "SqueezeBackward1");
  return reshaped(b, x, without(in, dim), without(b.strides(x), dim, in.rank()), "SqueezeBackward1");
}

TensorId expand(LayerBuilder& b, TensorId x, const Shape& shape) {
  const Shape in = b.shape(x);
  const int added = shape.rank() - in.rank();
  Strides strides;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool repeats = i < added || (in[i - added] == 1 && shape[i] != 1);
    if (!repeats && in[i - added] != shape[i]) b.fail("cannot expand " + to_string(in) + " to " + to_string(shape));
    strides.set(i, repeats ? 0 : b.strides(x)[i - added]);
  }
  const TensorId y = b.alias(x, shape, strides);
  if (NodeBuilder node = b.node("ExpandBackward0", y, {x}))
    node.give(x, node.view(node.grad()));  // summed to x's shape
  return y;
}

TensorId slice(LayerBuilder& b, TensorId x, int dim, std::int64_t start, std::int64_t length, std::int64_t step) {
  const Shape in = b.shape(x);
  dim = wrapped(dim, in.rank());
  Shape out = in;
  out.set(dim, length);
  Strides strides = b.strides(x);
  strides.set(dim, std::min(step, std::max<std::int64_t>(1, in[dim])) * strides[dim]);  // larger ones take one position
  const TensorId y = b.alias(x, out, strides, start * b.strides(x)[dim]);
  if (NodeBuilder node = b.node("SliceBackward0", y, {x})) {
    const Operand all = node.run(Operator::slice_backward, Fill{in.elements()}, {}, in, b.dtype(x));
    node.run_in_place(Operator::copy_, Copy{out.elements()}, {all, node.grad()});
    node.attributes({{Attribute::dim, dim}, {Attribute::start, start}, {Attribute::step, step}});
    node.give(x, all);
  }
  return y;
}

TensorId select(LayerBuilder& b, TensorId x, int dim, std::int64_t at) {
  const Shape in = b.shape(x);
  dim = wrapped(dim, in.rank());
  const Shape out = without(in, dim);
  const TensorId y = b.alias(x, out, without(b.strides(x), dim, in.rank()), at * b.strides(x)[dim]);
  if (NodeBuilder node = b.node("SelectBackward0", y, {x})) {
    const Operand all = node.run(Operator::select_backward, Fill{in.elements()}, {}, in, b.dtype(x));
    node.run_in_place(Operator::copy_, Copy{out.elements()}, {all, node.grad()});
    node.attributes({{Attribute::dim, dim}, {Attribute::index, at}});
    node.give(x, all);
  }
  return y;
}

std::vector<TensorId> split(LayerBuilder& b, TensorId x, int dim, std::span<const std::int64_t> sizes,
                            std::string_view name) {
  const Shape in = b.shape(x);
  std::vector<TensorId> parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    Shape part = in;
    part.set(dim, size);
    parts.push_back(b.alias(x, part, b.strides(x), start * b.strides(x)[dim]));
    start += size;
  }
  if (NodeBuilder node = b.node(name, parts, std::span<const TensorId>(&x, 1))) {
    std::vector<Operand> gradients;
    for (std::size_t k = 0; k < parts.size(); ++k) gradients.push_back(node.grad(static_cast<int>(k)));
    node.give(x, node.run(Operator::cat, Copy{in.elements()}, std::span<const Operand>(gradients), in, b.dtype(x)));
    node.attributes({{Attribute::dim, dim}});
  }
  return parts;
}

std::vector<TensorId> unbind(LayerBuilder& b, TensorId x, int dim) {
  const Shape in = b.shape(x);
  dim = wrapped(dim, in.rank());
  std::vector<TensorId> parts;
  for (std::int64_t k = 0; k < in[dim]; ++k)
    parts.push_back(b.alias(x, without(in, dim), without(b.strides(x), dim, in.rank()), k * b.strides(x)[dim]));
  if (NodeBuilder node = b.node("UnbindBackward0", parts, std::span<const TensorId>(&x, 1))) {
    std::vector<Operand> gradients;
    for (std::size_t k = 0; k < parts.size(); ++k) gradients.push_back(node.grad(static_cast<int>(k)));
    node.give(x, node.run(Operator::stack, Copy{in.elements()}, std::span<const Operand>(gradients), in, b.dtype(x)));
    node.attributes({{Attribute::dim, dim}});
  }
  return parts;
}

TensorId cat(LayerBuilder& b, std::span<const TensorId> xs, int dim, std::optional<DType> of_empty) {
  Shape out = b.shape(xs[0]);
  DType dtype = of_empty ? promote(*of_empty, b.dtype(xs[0])) : b.dtype(xs[0]);
  bool channels_last = true;
  for (const TensorId x : xs) {
    if (x != xs[0]) dtype = promote(dtype, b.dtype(x));
    channels_last = channels_last && b.suggested_format(x) == MemoryFormat::channels_last;
  }
  out.set(dim, 0);
  for (const TensorId x : xs) out.set(dim, checked_add(out[dim], b.shape(x)[dim]));
  // The result is channels-last where all inputs suggest it (TensorShape.cpp, cat_compute_output_memory_format).
  const TensorId y = b.emit(Operator::cat, Copy{out.elements()}, xs,
                            {out, dtype, channels_last ? Placing::channels_last : Placing::contiguous});
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("CatBackward0", std::span<const TensorId>(&y, 1), xs)) {
    std::int64_t start = 0;
    for (const TensorId x : xs) {
      if (node.needs(x)) node.give(x, node.narrow(node.grad(), b.shape(x), dim, start));
      start += b.shape(x)[dim];
    }
  }
  return y;
}

TensorId stack(LayerBuilder& b, std::span<const TensorId> xs, int dim) {
  const Shape each = b.shape(xs[0]);
  dim = wrapped(dim, each.rank() + 1);
  const Shape out = with(each, dim, static_cast<std::int64_t>(xs.size()));
  DType dtype = b.dtype(xs[0]);
  for (const TensorId x : xs) dtype = promote(dtype, b.dtype(x));
  const TensorId y = b.emit(Operator::stack, Copy{out.elements()}, xs, out, dtype);
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("StackBackward0", std::span<const TensorId>(&y, 1), xs)) {
    std::int64_t at = 0;
    for (const TensorId x : xs) {
      if (node.needs(x)) node.give(x, node.reshape(node.narrow(node.grad(), with(each, dim, 1), dim, at), each));
      ++at;
    }
  }
  return y;
}

}  // namespace gpuplan::aten
