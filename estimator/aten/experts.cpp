#include "estimator/aten/experts.h"

#include <array>

#include "estimator/aten/clamp.h"
#include "estimator/aten/grouped_product.h"
#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/aten/views.h"
#include "estimator/operators/cub.h"
#include "estimator/operators/reduction.h"

namespace gpuplan::aten {
namespace {

constexpr std::int64_t kSortedByOneBlock = 2304;  // indices; recorded, on compute capability 7.5, 8.0 and 9.0

OpaqueKernel add_rows(const LayerBuilder& b, std::int64_t indices, const Shape& table) {
  const std::int64_t sort =
      indices <= kSortedByOneBlock ? 1 : cub_sort_bytes(indices, table[0] - 1, b.gpu(), kNewestPyTorch);
  return index_put(indices, 0, sort, table.elements());
}

struct Offsets {
  TensorId ends = kNone, narrow = kNone, counts = kNone;
};

// torch.histc finds the smallest and the largest element where its range is empty, as that of one expert is
// (aten/src/ATen/native/cuda/SummaryOps.cu, _histc_template).
OpaqueKernel counts_by_expert(const LayerBuilder& b, std::int64_t rows, const ExpertSizes& n) {
  ScratchProgram program;
  ScratchWriter w(program);
  w.result();
  if (n.experts == 1) {
    w.allocate(size_of(DType::int32));
    w.allocate(size_of(DType::int32));
    for (const std::int64_t bytes : reduction_scratch(Shape{rows}, 1, DType::int32, DType::int32, b.gpu()))
      w.allocate(bytes);
    w.release_all();
  }
  return opaque_kernel(program, rows);
}

// Where each expert's rows end.
Offsets offsets(LayerBuilder& b, TensorId experts, const ExpertSizes& n) {
  const TensorId narrow = b.cast(experts, DType::int32);
  const OpaqueKernel count = counts_by_expert(b, b.elements(experts), n);
  const TensorId counts = b.emit(Operator::histc, count, {narrow}, {n.experts}, DType::int32);
  b.attributes({{Attribute::min, 0}, {Attribute::max, n.experts - 1}});
  const std::int64_t bytes = cub_scan_bytes(n.experts, kCubScanTile, b.run().pytorch, kCubScanState / 2);
  const OpaqueKernel scan = opaque_kernel({kResultAllocation, bytes}, n.experts);
  const TensorId ends = b.emit(Operator::cumsum, scan, {counts}, {n.experts}, DType::int32);
  b.attributes({{Attribute::dim, 0}});
  return {ends, narrow, counts};
}

// Which of the sorted rows are of experts that the rank does not have, which are clamped then; kNone where it has all.
TensorId rows_of_others(LayerBuilder& b, TensorId& experts, const ExpertSizes& n) {
  if (!n.masks) return kNone;
  const Shape each = b.shape(experts);
  const TensorId mask = no_grad(b, Operator::ge, {experts}, each, DType::boolean, {{Attribute::other, n.experts}});
  experts = b.emit_in_place(Operator::clamp_max, Elementwise{each.elements()}, {experts});
  b.attributes({{Attribute::max, n.experts - 1}});
  return unsqueeze(b, mask, 1);
}

TensorId masked(LayerBuilder& b, TensorId x, TensorId mask, bool in_place = false) {
  return mask == kNone ? x : masked_fill(b, x, mask, 0, in_place);
}

// The module's GptOssExperts._apply_gate, whose names of parts end with it.
TensorId clamped_gate(LayerBuilder& b, TensorId both, const ExpertSizes& n) {
  const auto [alpha, limit] = *n.clamped;
  const TensorId every_first = slice(b, both, 1, 0, n.inner, 2), every_second = slice(b, both, 1, 1, n.inner, 2);
  const TensorId gate = clamp(b, every_first, {.low = {}, .high = limit});
  const TensorId up = clamp(b, every_second, {.low = -limit, .high = limit});
  const TensorId glu = mul(b, gate, unary(b, binary_number(b, Binary::mul, gate, alpha), kSigmoid));
  const TensorId gated = mul(b, binary_number(b, Binary::add, up, 1, false, true), glu);
  b.hold({both, gate, up});
  return gated;
}

TensorId gate_of(LayerBuilder& b, TensorId both, const ExpertSizes& n) {
  if (n.clamped) return clamped_gate(b, both, n);
  const std::vector<TensorId> parts = split(b, both, 1, std::array{n.inner, n.inner}, "SplitBackward0");
  return mul(b, unary(b, parts[0], kSilu), parts[1]);
}

// The sorted pairs: their experts, where the rows of each end, and which rows are masked.
struct Sorted {
  TensorId experts = kNone, ends = kNone, mask = kNone;
};

TensorId projected(LayerBuilder& b, TensorId x, TensorId weights, TensorId bias, const Sorted& pairs,
                   const ExpertSizes& n) {
  const TensorId each = n.clamped ? transpose(b, weights, 1, 2) : weights;
  const TensorId y = grouped_product(b, x, each, pairs.ends);
  return masked(b, bias == kNone ? y : binary(b, Binary::add, y, bias, true), pairs.mask);
}

TensorId bias_of(LayerBuilder& b, TensorId bias, const Sorted& pairs) {
  return bias == kNone ? kNone : rows_at(b, bias, pairs.experts);
}

// down(gate(gate_up(x))), of one projection that has gate and up. A bias is a name that the next one replaces.
TensorId gated_mlp(LayerBuilder& b, TensorId x, const ExpertWeights& w, const Sorted& pairs, const ExpertSizes& n,
                   TensorId& last_bias) {
  const TensorId first = bias_of(b, w.gate_up_bias, pairs);
  const TensorId gated = gate_of(b, projected(b, masked(b, x, pairs.mask, true), w.gate_up, first, pairs, n), n);
  last_bias = bias_of(b, w.down_bias, pairs);
  if (first != kNone) b.hold({first});
  return projected(b, gated, w.down, last_bias, pairs, n);
}

// The places of the pairs before they were sorted.
TensorId inverse(LayerBuilder& b, TensorId places) {
  const Shape each = b.shape(places);
  const TensorId back = b.emit(Operator::empty_like, Fill{}, {places}, each, DType::int64);
  const TensorId order = no_grad(b, Operator::arange, {}, each, DType::int64, {{Attribute::start, 0}});
  return b.emit_in_place(Operator::index_put_, Copy{each.elements()}, {back, places, order});
}

}  // namespace

ExpertWeights expert_weights(LayerBuilder& b, const ExpertSizes& n) {
  const std::int64_t both = checked_mul(2, n.inner);
  const bool turned = n.clamped.has_value();
  ExpertWeights w;
  w.gate_up = b.parameter("gate_up_proj", {n.experts, turned ? n.hidden : both, turned ? both : n.hidden});
  if (turned) w.gate_up_bias = b.parameter("gate_up_proj_bias", {n.experts, both});
  w.down = b.parameter("down_proj", {n.experts, turned ? n.inner : n.hidden, turned ? n.hidden : n.inner});
  if (turned) w.down_bias = b.parameter("down_proj_bias", {n.experts, n.hidden});
  return w;
}

TensorId rows_at(LayerBuilder& b, TensorId x, TensorId index) {
  const Shape table = b.shape(x);
  const DType dtype = b.dtype(x);
  const std::int64_t indices = b.elements(index);
  Shape out = table;
  out.set(0, indices);
  const TensorId y = b.emit(Operator::index, Copy{out.elements()}, {x, index}, out, dtype);
  if (NodeBuilder node = b.node("IndexBackward0", y, {x})) {
    const Operand sum = node.run(Operator::new_zeros, Fill{table.elements()}, {}, table, dtype);
    node.run_in_place(Operator::_index_put_impl_, add_rows(b, indices, table), {sum, node.grad(), index});
    node.give(x, sum);
  }
  return y;
}

TensorId experts(LayerBuilder& b, TensorId x, const Routed& routed, const ExpertWeights& w, const ExpertSizes& n) {
  const DType dtype = b.dtype(x);
  const TensorId flat = b.alias(routed.experts, {n.pairs()}, contiguous_strides({n.pairs()}));
  const std::vector<TensorId> sorted = sort(b, flat, 0);
  const TensorId places = sorted[1];
  const TensorId token =
      no_grad(b, Operator::floor_divide, {places}, {n.pairs()}, DType::int64, {{Attribute::other, n.top_k}});
  const TensorId rows = rows_at(b, x, token);
  const TensorId weights = rows_at(b, view(b, routed.weights, {n.pairs()}), places);
  const Offsets rows_of = offsets(b, sorted[0], n);
  Sorted pairs{.experts = sorted[0], .ends = rows_of.ends};
  pairs.mask = rows_of_others(b, pairs.experts, n);
  TensorId last_bias = kNone;
  const TensorId y = gated_mlp(b, rows, w, pairs, n, last_bias);
  const TensorId weighted = mul(b, y, unsqueeze(b, weights, 1));
  const TensorId back = inverse(b, places);
  const TensorId ordered = rows_at(b, weighted, back);
  const TensorId by_token = view(b, ordered, {n.tokens, n.top_k, n.hidden});
  const TensorId sum = reduce(b, by_token, 0b10U, false, false);
  const TensorId out = summed_in_place(b, b.cast(sum, dtype));
  b.hold({pairs.experts, places, weights, rows, rows_of.narrow, rows_of.counts, rows_of.ends, back, y, ordered, sum});
  if (pairs.mask != kNone) b.hold({pairs.mask});
  if (last_bias != kNone) b.hold({last_bias});
  return out;
}

}  // namespace gpuplan::aten
