#include "estimator/aten/tensor_parallel.h"

namespace gpuplan::aten {
namespace {

// _c10d_functional.all_reduce makes a copy and reduces that (torch/csrc/distributed/c10d/Functional.cpp).
TensorId summed(LayerBuilder& b, TensorId y) {
  const Copy copy{b.elements(y)};
  const TensorId sum = b.emit(Operator::all_reduce, copy, {y}, b.shape(y), b.dtype(y));
  if (NodeBuilder node = b.node("RedistributeBackward", sum, {y})) node.give(y, node.grad());
  return sum;
}

// Shards come one after another and are put together along the last dimension (placement_types.py,
// _to_replicate_tensor), while the shard of this rank is alive.
TensorId gathered(LayerBuilder& b, TensorId y) {
  const std::int64_t ranks = b.run().tensor_ranks;
  const Shape part = b.shape(y);
  Shape listed = part, whole = part;
  listed.set(0, part[0] * ranks);
  whole.set(-1, part[-1] * ranks);
  const TensorId shards = b.emit(Operator::all_gather, Marker{}, {y}, listed, b.dtype(y));
  const TensorId all = b.emit(Operator::cat, Copy{whole.elements()}, {shards, y}, whole, b.dtype(y));
  if (NodeBuilder node = b.node("RedistributeBackward", all, {y}))
    node.give(y, node.contiguous(node.narrow(node.grad(), part, part.rank() - 1, 0)));
  return all;
}

// A tensor of some of the tokens, and of all of them, [samples, tokens, features].
struct TokenShapes {
  Shape part, whole, listed;  // listed: the parts of all ranks one after another
  bool joined = false;        // which is `whole` already, for one sample (torch/_utils.py, _maybe_view_chunk_cat)
};
TokenShapes token_shapes(const Shape& part, std::int64_t ranks) {
  TokenShapes s{part, part, part, part[0] == 1};
  s.listed.set(0, part[0] * ranks);
  s.whole.set(1, part[1] * ranks);
  return s;
}

TokenShapes shapes_of_whole(const LayerBuilder& b, TensorId whole) {
  Shape part = b.shape(whole);
  const std::int64_t ranks = b.run().tensor_ranks;
  if (part[1] % ranks != 0)
    b.fail(std::to_string(part[1]) + " tokens are not a multiple of --tp " + std::to_string(ranks) +
           ", whose ranks have as many of them each");
  part.set(1, part[1] / ranks);
  return token_shapes(part, ranks);
}

// The gradients of all tokens, of which each rank has those of its own.
Operand gathered_gradients(NodeBuilder& node, const TokenShapes& s, DType type) {
  const Operand grad = node.contiguous(node.grad());
  const Operand shards = node.run(Operator::all_gather, Marker{}, {grad}, s.listed, type);
  return s.joined ? node.reshape(shards, s.whole)
                  : node.run(Operator::cat, Copy{s.whole.elements()}, {shards}, s.whole, type);
}

// Some of the tokens of the ranks' sum. The tokens of each rank are put together first
// (torch/distributed/_functional_collectives.py, reduce_scatter_single).
TensorId scattered(LayerBuilder& b, TensorId y) {
  const TokenShapes s = shapes_of_whole(b, y);
  const Shape& part = s.part;
  const DType type = b.dtype(y);
  const TensorId chunks = b.emit(Operator::cat, Copy{s.whole.elements()}, {y}, s.listed, type);
  const TensorId sum = b.emit(Operator::reduce_scatter, Marker{}, {chunks}, part, type);
  b.hold({y});
  b.keep_until_read(chunks, sum);
  if (NodeBuilder node = b.node("RedistributeBackward", sum, {y})) node.give(y, gathered_gradients(node, s, type));
  return sum;
}

}  // namespace

TensorId gathered_tokens(LayerBuilder& b, TensorId x) {
  const TokenShapes s = token_shapes(b.shape(x), b.run().tensor_ranks);
  const DType type = b.dtype(x);
  const TensorId shards = b.emit(Operator::all_gather, Marker{}, {x}, s.listed, type);
  const TensorId whole = s.joined ? b.alias(shards, s.whole, contiguous_strides(s.whole))
                                  : b.emit(Operator::cat, Copy{s.whole.elements()}, {shards}, s.whole, type);
  if (NodeBuilder node = b.node("RedistributeBackward", whole, {x})) {
    const Operand grad = node.contiguous(node.grad());
    const Operand chunks = node.run(Operator::cat, Copy{s.whole.elements()}, {grad}, s.listed, type);
    const Operand sum = node.run(Operator::reduce_scatter, Marker{}, {chunks}, s.part, type);
    node.hold({grad});
    node.give(x, sum);
  }
  return whole;
}

TensorId tokens_of_rank(LayerBuilder& b, TensorId x) {
  if (!b.run().tensor_plan.sequence) return x;
  const TokenShapes s = shapes_of_whole(b, x);
  const TensorId part = b.emit(Operator::clone, Copy{s.part.elements()}, {x}, s.part, b.dtype(x));
  if (NodeBuilder node = b.node("RedistributeBackward", part, {x}))
    node.give(x, gathered_gradients(node, s, b.dtype(x)));
  return part;
}

TensorId summed_rows(LayerBuilder& b, TensorId y) {
  return b.tensor_style() == TensorStyle::vocabulary ? summed(b, y) : y;
}

TensorId shared_input(LayerBuilder& b, TensorId x) {
  const TensorStyle style = b.tensor_style();
  if (b.run().tensor_plan.sequence) {
    if (style == TensorStyle::whole) return x;
    return style == TensorStyle::head ? gathered_tokens(b, x) : b.distributed(x, true);
  }
  if (!b.training() || (style != TensorStyle::colwise && style != TensorStyle::head)) return x;
  const TensorId whole = b.alias(x, b.shape(x), b.strides(x));
  if (NodeBuilder node = b.node("_FromTorchTensorBackward", whole, {x}))
    node.give(x, node.run(Operator::all_reduce, Copy{b.elements(x)}, {node.grad()}, b.shape(x), b.dtype(x)));
  return whole;
}

TensorId shared_output(LayerBuilder& b, TensorId y) {
  const TensorPlan& plan = b.run().tensor_plan;
  switch (b.tensor_style()) {
    case TensorStyle::rowwise:
      if (plan.sequence) return scattered(b, y);
      if (b.training()) return summed(b, y);
      return b.emit_in_place(Operator::all_reduce, Copy{b.elements(y)}, {y});  // dist.all_reduce(output)
    case TensorStyle::head: return plan.loss ? y : b.distributed(gathered(b, y), false);
    case TensorStyle::vocabulary: return plan.sequence ? scattered(b, y) : summed(b, y);
    case TensorStyle::colwise: return b.distributed(y, false);
    case TensorStyle::whole:
    case TensorStyle::norm:
    case TensorStyle::head_norm:
    case TensorStyle::module: break;
  }
  return y;
}

MaskedRows masked_rows(LayerBuilder& b, TensorId indices) {
  const Shape at = b.shape(indices);
  const DType index_type = b.dtype(indices);
  const Elementwise each{at.elements()};
  const TensorId below = b.emit(Operator::lt, each, {indices}, at, DType::boolean);
  const TensorId above = b.emit(Operator::ge, each, {indices}, at, DType::boolean);
  const TensorId mask = b.emit(Operator::logical_or, each, {below, above}, at, DType::boolean);
  const TensorId copy = b.emit(Operator::clone, Copy{at.elements()}, {indices}, at, index_type);
  const TensorId own = b.emit(Operator::sub, each, {copy}, at, index_type);
  b.emit_in_place(Operator::masked_fill_, each, {own, mask});
  return {mask, own};
}

TensorId shared_embedding(LayerBuilder& b, TensorId weight, TensorId indices) {
  const Shape at = b.shape(indices), part = b.shape(weight);
  const DType type = b.dtype(weight);
  const MaskedRows rows = masked_rows(b, indices);
  Shape out = at;
  out.push_back(part[1]);
  Lookup lookup{.indices = at.elements(), .vocabulary = part[0], .features = part[1], .dtype = type};
  const TensorId found = b.emit(Operator::embedding, lookup, {weight, rows.indices}, out, type);
  const TensorId y = b.emit_in_place(Operator::masked_fill_, Elementwise{out.elements()}, {found, rows.mask});
  if (NodeBuilder node = b.node("EmbeddingBackward0", y, {weight})) {
    lookup.backward = true;
    lookup.vocabulary *= b.run().tensor_ranks;
    const std::int64_t bytes = lookup.vocabulary * part[1] * size_of(type);
    node.give(weight, node.run(Operator::embedding_dense_backward, lookup, {node.contiguous(node.grad()), indices},
                               {.shape = part, .dtype = type, .bytes = bytes}));
  }
  return y;
}

TensorId rows_of_rank(LayerBuilder& b, TensorId x) {
  const std::int64_t ranks = b.run().tensor_ranks;
  if (ranks == 1) return x;
  const Shape whole = b.shape(x);
  if (whole[0] % ranks != 0)
    b.fail(std::to_string(whole[0]) + " tokens are not a multiple of --tp " + std::to_string(ranks) +
           ", whose ranks send as many of them each to the experts");
  Shape own = whole;
  own.set(0, whole[0] / ranks);
  const TensorId part = b.emit(Operator::clone, Copy{own.elements()}, {x}, own, b.dtype(x));
  if (NodeBuilder node = b.node("RedistributeBackward", part, {x}))
    node.give(x, node.run(Operator::all_gather, Marker{}, {node.contiguous(node.grad())}, whole, b.dtype(x)));
  return part;
}

TensorId rows_of_ranks(LayerBuilder& b, TensorId x) {
  const std::int64_t ranks = b.run().tensor_ranks;
  if (ranks == 1) return x;
  const Shape own = b.shape(x);
  Shape all = own;
  all.set(0, own[0] * ranks);
  const TensorId whole = b.emit(Operator::all_gather, Marker{}, {x}, all, b.dtype(x));
  if (NodeBuilder node = b.node("RedistributeBackward", whole, {x}))
    node.give(x, node.run(Operator::clone, Copy{own.elements()}, {node.grad()}, own, b.dtype(x)));
  return whole;
}

TensorId summed_backward(LayerBuilder& b, TensorId x) {
  if (b.run().tensor_ranks == 1 || b.run().expert_ranks > 1 || !b.training()) return x;
  const TensorId given = b.alias(x, b.shape(x), b.strides(x));
  if (NodeBuilder node = b.node("_AllReduceBackwardBackward", given, {x})) {
    node.run_in_place(Operator::all_reduce, Copy{b.elements(x)}, {node.grad()});
    node.give(x, node.grad());
  }
  return given;
}

TensorId summed_in_place(LayerBuilder& b, TensorId y) {
  if (b.run().tensor_ranks == 1 || b.run().expert_ranks > 1) return y;
  const TensorId sum = b.emit_in_place(Operator::all_reduce, Copy{b.elements(y)}, {y});
  if (NodeBuilder node = b.node("_AllReduceForwardBackward", sum, {y})) node.give(y, node.grad());
  return sum;
}

}  // namespace gpuplan::aten
