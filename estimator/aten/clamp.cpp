#include "estimator/aten/clamp.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/promote.h"

namespace gpuplan::aten {
namespace {

struct Clamped {
  TensorId x = kNone, low = kNone, high = kNone;
  Shape shape;
  DType dtype = DType::fp32;
};

// A bound of one element does not widen x, unless x is of integers and the bound is not (c10::result_type).
DType with_bound(const LayerBuilder& b, DType dtype, TensorId bound) {
  if (bound == kNone) return dtype;
  const DType other = b.dtype(bound);
  const bool leaves = b.shape(bound).rank() == 0 && (is_floating(dtype) || !is_floating(other));
  return leaves ? dtype : promote(dtype, other);
}

constexpr PyTorchVersion kHalvesWhereEqual = 209;  // in 2.15, not in 2.4

// Masks of x against the bounds, and where a tensor of the result's size goes.
struct Masks {
  NodeBuilder& node;
  const Clamped& c;
  Elementwise each{c.shape.elements()};

  Operand of(Operator comparison, TensorId bound) {
    return node.run(comparison, each, {c.x, bound}, {c.shape, DType::boolean});
  }
  Operand joined(Operator op, Operand a, Operand b) { return node.run(op, each, {a, b}, {c.shape, DType::boolean}); }
};

void older_backward(NodeBuilder& node, const Clamped& c) {
  Masks masks{node, c};
  const Operand zero = node.run(Operator::scalar_tensor, Fill{1}, {}, Shape{}, c.dtype);
  const Operand mask = c.low != kNone ? masks.of(Operator::ge, c.low) : masks.of(Operator::le, c.high);
  Operand other = mask;
  if (c.low != kNone && c.high != kNone) {
    other = masks.of(Operator::le, c.high);
    node.run_in_place(Operator::logical_and_, masks.each, {mask, other});
  }
  node.give(c.x, node.run(Operator::where, masks.each, {mask, node.grad(), zero}, c.shape, c.dtype));
  node.hold({mask, other, zero});
}

// where(equal, grad / 2, grad).masked_fill_(beyond, 0)
Operand halved(NodeBuilder& node, const Clamped& c, Operand equal, Operand half, Operand beyond) {
  const Elementwise each{c.shape.elements()};
  const Operand result = node.run(Operator::where, each, {equal, half, node.grad()}, c.shape, c.dtype);
  node.run_in_place(Operator::masked_fill_, each, {result, beyond});
  node.attributes({{Attribute::value, 0}});
  node.hold({equal, half, beyond});
  return result;
}

Operand half_of(NodeBuilder& node, const Clamped& c) {
  const Operand half = node.run(Operator::div, Elementwise{c.shape.elements()}, {node.grad()}, c.shape, c.dtype);
  node.attributes({{Attribute::other, 2}});
  return half;
}

// As torch.minimum's and maximum's: a bound that is trained has what x has not.
void backward_of_one(NodeBuilder& node, const Clamped& c) {
  Masks masks{node, c};
  const bool least = c.low != kNone;
  const TensorId bound = least ? c.low : c.high;
  const auto give = [&](TensorId to, Operator beyond) {
    if (!node.needs(to)) return;
    const Operand lost = masks.of(beyond, bound);
    const Operand half = half_of(node, c);
    node.give(to, halved(node, c, masks.of(Operator::eq, bound), half, lost));
  };
  give(bound, least ? Operator::gt : Operator::lt);
  give(c.x, least ? Operator::lt : Operator::gt);
}

void backward_of_two(NodeBuilder& node, const Clamped& c, const Shape& bounds) {
  Masks masks{node, c};
  const Operand ordered =
      node.run(Operator::lt, Elementwise{bounds.elements()}, {c.low, c.high}, {bounds, DType::boolean});
  const Operand is_low = masks.of(Operator::eq, c.low), is_high = masks.of(Operator::eq, c.high);
  const Operand is_one = masks.joined(Operator::logical_or, is_low, is_high);
  const Operand equal = masks.joined(Operator::logical_and, is_one, ordered);
  node.hold({is_low, is_high, is_one});
  const Operand under = masks.of(Operator::lt, c.low), over = masks.of(Operator::gt, c.high);
  const Operand beyond = masks.joined(Operator::logical_or, under, over);
  node.hold({under, over});
  node.give(c.x, halved(node, c, equal, half_of(node, c), beyond));
  node.hold({ordered});
}

void check_known(const LayerBuilder& b, const Clamped& c, bool one) {
  const bool bound = (c.low != kNone && b.requires_grad(c.low)) || (c.high != kNone && b.requires_grad(c.high));
  if (bound && (!one || b.before(kHalvesWhereEqual)))
    b.fail("has a bound that is trained: known of one bound alone, as PyTorch 2.15 has it");
  if (!(c.shape == b.shape(c.x)) && !one) b.fail("has a gradient, but its bounds are wider than its input");
}

}  // namespace

TensorId clamp(LayerBuilder& b, TensorId x, const Bounds& bounds) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Elementwise each{shape.elements()};
  const Operator op = !bounds.high ? Operator::clamp_min : !bounds.low ? Operator::clamp_max : Operator::clamp;
  const TensorId y = b.emit(op, each, {x}, shape, dtype);
  std::vector<AttributeValue> attributes;
  if (bounds.low) attributes.emplace_back(Attribute::min, *bounds.low);
  if (bounds.high) attributes.emplace_back(Attribute::max, *bounds.high);
  b.attributes(attributes);
  if (NodeBuilder node = b.node("ClampBackward1", y, {x})) {
    // where(mask, grad, scalar_tensor(0)): its last argument is made first.
    const Operand zero = node.run(Operator::scalar_tensor, Fill{1}, {}, Shape{}, dtype);
    std::vector<Operand> masks;
    for (const auto& [bound, comparison] :
         {std::pair{bounds.low, Operator::ge}, std::pair{bounds.high, Operator::le}}) {
      if (!bound) continue;
      masks.push_back(node.run(comparison, each, {x}, {shape, DType::boolean}));
      node.attributes({{Attribute::other, *bound}});
    }
    if (masks.size() == 2) node.run_in_place(Operator::logical_and_, each, {masks[0], masks[1]});
    node.give(x, node.run(Operator::where, each, {masks[0], node.grad(), zero}, shape, dtype));
    node.hold({masks.front(), masks.back(), zero});
  }
  return y;
}

TensorId clamp(LayerBuilder& b, TensorId x, TensorId low, TensorId high) {
  Clamped c{.x = x, .low = low, .high = high, .shape = b.shape(x)};
  c.dtype = with_bound(b, with_bound(b, b.dtype(x), low), high);
  std::vector<TensorId> reads{x};
  for (const TensorId t : {low, high})
    if (t != kNone) {
      c.shape = broadcast(b, c.shape, b.shape(t));
      reads.push_back(t);
    }
  const Operator op = high == kNone ? Operator::clamp_min : low == kNone ? Operator::clamp_max : Operator::clamp;
  const TensorId y = b.emit(op, Elementwise{c.shape.elements()}, reads, c.shape, c.dtype);
  const bool one = reads.size() == 2;
  if (NodeBuilder node = b.node("ClampBackward0", std::span<const TensorId>(&y, 1), reads)) {
    check_known(b, c, one);
    if (b.before(kHalvesWhereEqual))
      older_backward(node, c);
    else if (one)
      backward_of_one(node, c);
    else
      backward_of_two(node, c, broadcast(b, b.shape(low), b.shape(high)));
  }
  return y;
}

}  // namespace gpuplan::aten
