#include "estimator/aten/loss_parallel.h"

#include <array>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/base/integers.h"

namespace gpuplan::aten {
namespace {

TensorId over_ranks(LayerBuilder& b, TensorId x) {
  return b.emit(Operator::all_reduce, Copy{b.elements(x)}, {x}, b.shape(x), b.dtype(x));
}

// torch.where(condition, x, 0): the number becomes a tensor first.
TensorId where_or_zero(LayerBuilder& b, TensorId condition, TensorId x) {
  const std::array<OutputSpec, 2> results{{{Shape{}, b.dtype(x)}, {b.shape(x), b.dtype(x)}}};
  return b.emit_many(Operator::where, Elementwise{b.elements(x)}, {condition, x}, results)[1];
}
Operand where_or_zero(NodeBuilder& node, Operand condition, Operand x, const Shape& shape, DType type) {
  const std::array<OutputSpec, 2> results{{{Shape{}, type}, {shape, type}}};
  return node.run_many(Operator::where, Elementwise{shape.elements()}, {condition, x}, results)[1];
}

// _log_softmax: its backward is that of nll_loss.
TensorId log_softmax_of_ranks(LayerBuilder& b, TensorId x) {
  const Shape shape = b.shape(x), row{shape[0], 1};
  const DType type = b.dtype(x);
  const Elementwise each{shape.elements()}, each_row{shape[0]};
  const Reduction over_row{.shape = shape, .reduced = 0b10U, .input = type, .output = type};
  const TensorId largest = over_ranks(b, b.emit(Operator::amax, over_row, {x}, row, type));
  const TensorId shifted = b.emit(Operator::sub, each, {x, largest}, shape, type);
  const TensorId powers = b.emit(Operator::exp, each, {shifted}, shape, type);
  const TensorId sum = over_ranks(b, b.emit(Operator::sum, over_row, {powers}, row, type));
  const TensorId log = b.emit(Operator::log, each_row, {sum}, row, type);
  const TensorId y = b.emit(Operator::sub, each, {shifted, log}, shape, type);
  b.hold({shifted, largest, sum, log});
  if (NodeBuilder node = b.node("LogSoftmaxBackward0", y, {x})) {
    node.save(y);
    node.give(x, node.grad());
  }
  return y;
}

// The two results of _nll_loss_forward.
struct LossOfRanks {
  TensorId mean = kNone, weight = kNone;
};
LossOfRanks nll_loss_forward(LayerBuilder& b, TensorId log_p, TensorId target) {
  const Shape rows = b.shape(target);
  const DType type = b.dtype(log_p);
  const Elementwise each{rows.elements()};
  const auto kept = [&] { return b.emit(Operator::ne, each, {target}, rows, DType::boolean); };
  const TensorId safe = where_or_zero(b, kept(), target);
  const MaskedRows own = masked_rows(b, safe);
  const TensorId found = b.emit(Operator::gather, Copy{rows.elements()}, {log_p, own.indices}, rows, type);
  const TensorId reduced = over_ranks(b, b.emit_in_place(Operator::masked_fill_, each, {found, own.mask}));
  const TensorId negative = b.emit(Operator::neg, each, {reduced}, rows, type);
  const TensorId result = where_or_zero(b, kept(), negative);
  const std::int64_t wide = checked_mul(rows.elements(), size_of(DType::int64));
  const TensorId count =
      b.emit(Operator::sum, result_with_temporary(wide, rows.elements()), {kept()}, Shape{}, DType::int64);
  const TensorId weight = b.emit(Operator::to, Elementwise{1, 0}, {count}, Shape{}, type);
  const Reduction all{.shape = rows, .reduced = 1, .input = type, .output = type};
  const TensorId sum = b.emit(Operator::sum, all, {result}, Shape{}, type);
  const TensorId mean = b.emit(Operator::div, Elementwise{1}, {sum, weight}, Shape{}, type);
  b.hold({result, safe, own.indices, found, reduced});
  return {mean, weight};
}

// _nll_loss_and_log_softmax_backward.
void give_gradient(NodeBuilder& node, TensorId log_p, TensorId target, TensorId weight, const Shape& shape,
                   DType type) {
  const Shape rows{shape[0]};
  const Elementwise each{rows.elements()}, all{shape.elements()};
  const Operand share = node.run(Operator::div, Elementwise{1}, {node.grad(), weight}, Shape{}, type);
  const auto kept = [&] { return node.run(Operator::ne, each, {target}, rows, DType::boolean); };
  const Operand safe = where_or_zero(node, kept(), target, rows, DType::int64);
  const Operand zeros = node.run(Operator::zeros_like, Fill{shape.elements()}, {}, shape, type);
  const Operand below = node.run(Operator::lt, each, {safe}, rows, DType::boolean);
  const Operand above = node.run(Operator::ge, each, {safe}, rows, DType::boolean);
  const Operand mask = node.run(Operator::logical_or, each, {below, above}, rows, DType::boolean);
  const Operand copy = node.run(Operator::clone, Copy{rows.elements()}, {safe}, rows, DType::int64);
  const Operand own = node.run(Operator::sub, each, {copy}, rows, DType::int64);
  node.run_in_place(Operator::masked_fill_, each, {own, mask});
  const Operand masked = node.run(Operator::to, Elementwise{rows.elements(), 0}, {mask}, rows, type);
  const Operand update = node.run(Operator::sub, each, {masked}, rows, type);
  const Operand row = node.run(Operator::arange, Fill{rows.elements()}, {}, rows, DType::int64);
  node.run_in_place(Operator::index_put_, Copy{rows.elements()}, {zeros, row, own, update});
  const Operand shares = where_or_zero(node, kept(), share, rows, type);
  const Operand powers = node.run(Operator::exp, all, {log_p}, shape, type);
  const Operand both = node.run(Operator::add, all, {zeros, powers}, shape, type);
  const Operand gradient = node.run(Operator::mul, all, {both, shares}, shape, type);
  node.hold({shares, safe, zeros, mask, own, update, row});
  node.give(log_p, gradient);
}

}  // namespace

TensorId cross_entropy_of_ranks(LayerBuilder& b, TensorId x, TensorId target) {
  const TensorId log_p = log_softmax_of_ranks(b, x);
  const LossOfRanks loss = nll_loss_forward(b, log_p, target);
  if (NodeBuilder node = b.node("NllLossBackward0", loss.mean, {log_p}))
    give_gradient(node, log_p, target, loss.weight, b.shape(log_p), b.dtype(log_p));
  return loss.mean;
}

}  // namespace gpuplan::aten
