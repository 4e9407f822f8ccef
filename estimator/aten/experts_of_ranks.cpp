#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "estimator/aten/experts.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/aten/views.h"

namespace gpuplan::aten {
namespace {

// The pairs in the order of their experts, which is that of the ranks that have them.
TensorId order_of(LayerBuilder& b, TensorId experts) {
  const std::vector<TensorId> sorted = sort(b, experts, 0);
  b.hold({sorted[0]});
  return sorted[1];
}

// How many pairs the rank sends to each expert, and the same of what it is sent.
std::array<TensorId, 2> counts_of(LayerBuilder& b, TensorId experts, const ExpertSizes& n) {
  const Shape all{n.experts};
  const std::int64_t ranks = b.run().expert_ranks;
  const TensorId zeros = b.emit(Operator::new_zeros, Fill{n.experts}, {}, all, DType::int64);
  const TensorId ones =
      b.emit(Operator::ones_like, Fill{b.elements(experts)}, {experts}, b.shape(experts), DType::int64);
  const TensorId sent = b.emit_in_place(Operator::scatter_add_, Copy{b.elements(experts)}, {zeros, ones, experts});
  const TensorId received = b.emit(Operator::empty_like, Fill{}, {sent}, all, DType::int64);
  b.emit_in_place(Operator::all_to_all, Copy{n.experts}, {received, sent});
  const TensorId by_rank = view(b, sent, {ranks, n.experts / ranks});
  const TensorId from_rank = view(b, received, {ranks, n.experts / ranks});
  const TensorId sums[] = {reduce(b, by_rank, 0b10U, false, false), reduce(b, from_rank, 0b10U, false, false)};
  const TensorId sizes = no_grad(b, Operator::stack, sums, {2, ranks}, DType::int64);
  b.hold({sizes});
  return {sent, received};
}

// So many of the rows, of other ranks; the gradient goes back the same way.
TensorId exchanged(LayerBuilder& b, TensorId x, std::int64_t rows) {
  const Shape in = b.shape(x);
  Shape out = in;
  out.set(0, rows);
  const TensorId y = b.emit(Operator::all_to_all, Copy{out.elements()}, {x}, out, b.dtype(x));
  if (NodeBuilder node = b.node("AllToAllSingle", y, {x}))
    node.give(x, node.run(Operator::all_to_all, Copy{in.elements()}, {node.contiguous(node.grad())}, in, b.dtype(x)));
  return y;
}

// Which of the rank's experts each row is for.
TensorId experts_of(LayerBuilder& b, TensorId received, std::int64_t rows, const ExpertSizes& n) {
  const std::int64_t own = n.experts / b.run().expert_ranks;
  const TensorId one = no_grad(b, Operator::arange, {}, {own}, DType::int64, {{Attribute::start, 0}});
  const TensorId each = b.emit(Operator::repeat, Copy{n.experts}, {one}, {n.experts}, DType::int64);
  b.hold({one});
  const TensorId ends = cumsum(b, received, 0);
  const TensorId places = b.emit(Operator::repeat_interleave, Copy{rows}, {received, ends}, {rows}, DType::int64);
  b.hold({ends});
  return b.emit(Operator::index_select, Copy{rows}, {each, places}, {rows}, DType::int64);
}

// One at least: torch.sum of none stands for it.
std::int64_t received_rows(const LayerBuilder& b, std::int64_t pairs) {
  const double most = static_cast<double>(checked_mul(pairs, b.run().expert_ranks));
  return static_cast<std::int64_t>(std::clamp(std::ceil(static_cast<double>(pairs) * b.run().expert_load), 1.0, most));
}

// Those that share layers have the same tokens, and send a part of them each.
TensorId dispatched_experts(LayerBuilder& b, TensorId given, Routed routed, const ExpertWeights& w, ExpertSizes n) {
  const DType dtype = b.dtype(given);
  const TensorId x = rows_of_rank(b, given);
  routed.experts = rows_of_rank(b, routed.experts);
  routed.weights = rows_of_rank(b, routed.weights);
  n.tokens = b.shape(x)[0];
  const std::int64_t pairs = n.pairs(), ranks = b.run().expert_ranks;
  ExpertSizes own = n;
  own.tokens = received_rows(b, pairs);
  own.experts = n.experts / ranks;
  own.top_k = 1;
  own.masks = true;
  const TensorId ids = b.alias(routed.experts, {pairs}, contiguous_strides({pairs}));
  const TensorId order = order_of(b, ids);
  const TensorId token =
      no_grad(b, Operator::floor_divide, {order}, {pairs}, DType::int64, {{Attribute::other, n.top_k}});
  const TensorId sent = rows_at(b, x, token);
  const std::array<TensorId, 2> counts = counts_of(b, ids, n);
  const TensorId rows = exchanged(b, sent, own.tokens);
  const TensorId rows_of = experts_of(b, counts[1], own.tokens, n);
  const TensorId ones = b.emit(Operator::ones_like, Fill{own.tokens}, {rows_of}, {own.tokens}, dtype);
  b.hold({x, routed.experts, sent, counts[0], counts[1]});
  const TensorId y = experts(b, rows, {.weights = ones, .experts = rows_of}, w, own);
  const TensorId back = exchanged(b, y, pairs);
  const TensorId there = b.emit(Operator::empty_like, Fill{}, {back}, b.shape(back), dtype);
  const TensorId ordered = b.emit_in_place(Operator::index_put_, Copy{b.elements(back)}, {there, back, order});
  if (NodeBuilder node = b.node("IndexPutBackward0", ordered, {back}))
    node.give(back, node.run(Operator::index, Copy{b.elements(back)}, {node.grad(), order}, b.shape(back), dtype));
  const TensorId by_token = view(b, ordered, {n.tokens, n.top_k, n.hidden});
  const TensorId weighted = mul(b, by_token, unsqueeze(b, routed.weights, 2));
  const TensorId sum = reduce(b, weighted, 0b10U, false, false);
  const TensorId out = b.cast(rows_of_ranks(b, sum), dtype);
  b.hold({rows, rows_of, ones, y, order, routed.weights, back, ordered, sum});
  return out;
}

// DTensor.to_local(), before anything else of the module: the parameter has its gradient when the rest is done.
TensorId as_local(LayerBuilder& b, TensorId parameter) {
  const TensorId local = b.alias(parameter, b.shape(parameter), b.strides(parameter));
  if (NodeBuilder node = b.node("_ToTorchTensorBackward", local, {parameter})) node.give(parameter, node.grad());
  return local;
}

}  // namespace

// The experts are a module of their own, which FSDP2 wraps: its policy converts what it is given.
TensorId experts_of_ranks(LayerBuilder& b, TensorId x, Routed routed, ExpertSizes n, std::string_view module) {
  const std::int64_t ranks = b.run().expert_ranks, own = n.experts / ranks;
  if (own * ranks != n.experts)
    b.fail("num_experts", std::to_string(n.experts) + " experts are not a multiple of --ep " + std::to_string(ranks));
  if (b.run().given_type) routed.weights = b.cast(routed.weights, b.run().precision);
  const LayerId within = b.begin_part(module, "Experts");
  n.inner = checked_mul(n.inner, b.run().tensor_ranks);  // the model is one rank's of --tp, and experts are whole
  ExpertSizes of_rank = n;
  of_rank.experts = own;
  ExpertWeights w = expert_weights(b, of_rank);
  for (TensorId* const weight : {&w.gate_up, &w.gate_up_bias, &w.down, &w.down_bias})
    if (*weight != kNone) *weight = as_local(b, *weight);
  const TensorId y = dispatched_experts(b, x, routed, w, n);
  b.end_part(within);
  return y;
}

}  // namespace gpuplan::aten
