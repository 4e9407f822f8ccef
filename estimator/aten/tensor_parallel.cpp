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

}  // namespace

TensorId shared_input(LayerBuilder& b, TensorId x) {
  const TensorStyle style = b.tensor_style();
  if (!b.training() || (style != TensorStyle::colwise && style != TensorStyle::gathered)) return x;
  const TensorId whole = b.alias(x, b.shape(x), b.strides(x));
  if (NodeBuilder node = b.node("_FromTorchTensorBackward", whole, {x}))
    node.give(x, node.run(Operator::all_reduce, Copy{b.elements(x)}, {node.grad()}, b.shape(x), b.dtype(x)));
  return whole;
}

TensorId shared_output(LayerBuilder& b, TensorId y) {
  switch (b.tensor_style()) {
    case TensorStyle::rowwise:
      if (b.training()) return summed(b, y);
      return b.emit_in_place(Operator::all_reduce, Copy{b.elements(y)}, {y});  // dist.all_reduce(output)
    case TensorStyle::gathered: return gathered(b, y);
    case TensorStyle::vocabulary: return summed(b, y);
    case TensorStyle::whole:
    case TensorStyle::colwise: break;
  }
  return y;
}

TensorId shared_embedding(LayerBuilder& b, TensorId weight, TensorId indices) {
  const Shape at = b.shape(indices), part = b.shape(weight);
  const DType type = b.dtype(weight), index_type = b.dtype(indices);
  const Elementwise each{at.elements()};
  const TensorId below = b.emit(Operator::lt, each, {indices}, at, DType::boolean);
  const TensorId above = b.emit(Operator::ge, each, {indices}, at, DType::boolean);
  const TensorId mask = b.emit(Operator::logical_or, each, {below, above}, at, DType::boolean);
  const TensorId copy = b.emit(Operator::clone, Copy{at.elements()}, {indices}, at, index_type);
  const TensorId own = b.emit(Operator::sub, each, {copy}, at, index_type);
  b.emit_in_place(Operator::masked_fill_, each, {own, mask});
  Shape out = at;
  out.push_back(part[1]);
  Lookup lookup{.indices = at.elements(), .vocabulary = part[0], .features = part[1], .dtype = type};
  const TensorId found = b.emit(Operator::embedding, lookup, {weight, own}, out, type);
  const TensorId y = b.emit_in_place(Operator::masked_fill_, Elementwise{out.elements()}, {found, mask});
  if (NodeBuilder node = b.node("EmbeddingBackward0", y, {weight})) {
    lookup.backward = true;
    lookup.vocabulary *= b.run().tensor_ranks;
    const std::int64_t bytes = lookup.vocabulary * part[1] * size_of(type);
    node.give(weight, node.run(Operator::embedding_dense_backward, lookup, {node.contiguous(node.grad()), indices},
                               {.shape = part, .dtype = type, .bytes = bytes}));
  }
  return y;
}

TensorId summed_backward(LayerBuilder& b, TensorId x) {
  if (b.run().tensor_ranks == 1 || !b.training()) return x;
  const TensorId given = b.alias(x, b.shape(x), b.strides(x));
  if (NodeBuilder node = b.node("_AllReduceBackwardBackward", given, {x})) {
    node.run_in_place(Operator::all_reduce, Copy{b.elements(x)}, {node.grad()});
    node.give(x, node.grad());
  }
  return given;
}

TensorId summed_in_place(LayerBuilder& b, TensorId y) {
  if (b.run().tensor_ranks == 1) return y;
  const TensorId sum = b.emit_in_place(Operator::all_reduce, Copy{b.elements(y)}, {y});
  if (NodeBuilder node = b.node("_AllReduceForwardBackward", sum, {y})) node.give(y, node.grad());
  return sum;
}

}  // namespace gpuplan::aten
