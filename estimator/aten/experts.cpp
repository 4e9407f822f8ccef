#include "estimator/aten/experts.h"

#include <array>

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

// Which of the sorted rows are of experts that the rank does not have; kNone where it has all.
TensorId rows_of_others(LayerBuilder& b, TensorId experts, const ExpertSizes& n) {
  if (!n.masks) return kNone;
  const Shape each = b.shape(experts);
  const TensorId mask = no_grad(b, Operator::ge, {experts}, each, DType::boolean, {{Attribute::other, n.experts}});
  b.emit_in_place(Operator::clamp_max, Elementwise{each.elements()}, {experts});
  b.attributes({{Attribute::max, n.experts - 1}});
  return unsqueeze(b, mask, 1);
}

TensorId masked(LayerBuilder& b, TensorId x, TensorId mask, bool in_place = false) {
  return mask == kNone ? x : masked_fill(b, x, mask, 0, in_place);
}

// down(silu(gate) * up), of one projection that holds gate and up.
TensorId gated_mlp(LayerBuilder& b, TensorId x, const ExpertWeights& w, TensorId ends, TensorId mask,
                   const ExpertSizes& n) {
  const TensorId both = masked(b, grouped_product(b, masked(b, x, mask, true), w.gate_up, ends), mask);
  const std::vector<TensorId> parts = split(b, both, 1, std::array{n.inner, n.inner}, "SplitBackward0");
  const TensorId gated = mul(b, unary(b, parts[0], kSilu), parts[1]);
  return masked(b, grouped_product(b, gated, w.down, ends), mask);
}

// The places of the pairs before they were sorted.
TensorId inverse(LayerBuilder& b, TensorId places) {
  const Shape each = b.shape(places);
  const TensorId back = b.emit(Operator::empty_like, Fill{}, {places}, each, DType::int64);
  const TensorId order = no_grad(b, Operator::arange, {}, each, DType::int64, {{Attribute::start, 0}});
  return b.emit_in_place(Operator::index_put_, Copy{each.elements()}, {back, places, order});
}

}  // namespace

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
  const TensorId experts = sorted[0], places = sorted[1];
  const TensorId token =
      no_grad(b, Operator::floor_divide, {places}, {n.pairs()}, DType::int64, {{Attribute::other, n.top_k}});
  const TensorId rows = rows_at(b, x, token);
  const TensorId weights = rows_at(b, view(b, routed.weights, {n.pairs()}), places);
  const Offsets rows_of = offsets(b, experts, n);
  const TensorId mask = rows_of_others(b, experts, n);
  const TensorId y = gated_mlp(b, rows, w, rows_of.ends, mask, n);
  const TensorId weighted = mul(b, y, unsqueeze(b, weights, 1));
  const TensorId back = inverse(b, places);
  const TensorId ordered = rows_at(b, weighted, back);
  const TensorId by_token = view(b, ordered, {n.tokens, n.top_k, n.hidden});
  const TensorId sum = reduce(b, by_token, 0b10U, false, false);
  const TensorId out = summed_in_place(b, b.cast(sum, dtype));
  b.hold({experts, places, weights, rows, rows_of.narrow, rows_of.counts, rows_of.ends, back, y, ordered, sum});
  if (mask != kNone) b.hold({mask});
  return out;
}

}  // namespace gpuplan::aten
