// MixtureOfExperts: a router that sends each token to top_k of several gated MLPs, as Hugging Face's Mixtral has it.
//
// transformers/models/mixtral/modeling_mixtral.py and integrations/moe.py, grouped_mm_experts_forward: the chosen
// (token, expert) pairs are sorted by expert, their rows gathered, both projections of all experts run as one grouped
// product each, and the weighted rows are put back in order and summed by token. Dropless: every pair is computed, so
// no size depends on what the router chooses. Names of a Python function live until it returns. The same is assumed of
// releases and GPUs whose transformers runs the experts one by one.
//
// With expert parallelism (transformers/distributed/expert_parallel.py, AllToAllEP) the rank has some of the experts:
// it sends each pair to the rank that has its expert, runs its own on what it is sent as if each pair were a token of
// one expert, and weights and sums what comes back. How many pairs it is sent is RunConfig::expert_load's to say.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "estimator/aten/grouped_product.h"
#include "estimator/aten/linear.h"
#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/operators/cub.h"
#include "estimator/operators/reduction.h"

namespace gpuplan::layers::mixture_of_experts {
namespace {

struct Sizes {
  std::int64_t tokens = 0, hidden = 0, inner = 0, experts = 0, top_k = 0;
  bool masks = false;  // the rows of experts that other ranks have (grouped_mm_experts_forward, _is_expert_parallel)
  std::int64_t pairs() const { return checked_mul(tokens, top_k); }
};

struct Weights {
  TensorId gate_up = kNone, down = kNone;
};

// --- rows by index ------------------------------------------------------------------------------------------------

constexpr std::int64_t kSortedByOneBlock = 2304;  // indices; recorded, on compute capability 7.5, 8.0 and 9.0

OpaqueKernel add_rows(const LayerBuilder& b, std::int64_t indices, const Shape& table) {
  const std::int64_t sort =
      indices <= kSortedByOneBlock ? 1 : cub_sort_bytes(indices, table[0] - 1, b.gpu(), kNewestPyTorch);
  return aten::index_put(indices, 0, sort, table.elements());
}

// x[index] along the first dimension.
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

// --- the router ---------------------------------------------------------------------------------------------------

struct Routed {
  TensorId logits = kNone, weights = kNone, experts = kNone;
};

std::vector<TensorId> top_k(LayerBuilder& b, TensorId p, const Sizes& n) {
  const Shape each{n.tokens, n.top_k};
  const OutputSpec results[] = {{each, DType::fp32}, {each, DType::int64}};
  std::vector<TensorId> best = b.emit_many(Operator::topk, Elementwise{b.elements(p)}, {p}, results);
  b.attributes({{Attribute::k, n.top_k}, {Attribute::dim, 1}});
  aten::scatter_gradient(b, "TopkBackward0", p, best[0], best[1], 1);
  return best;
}

// The weights of each token's experts, scaled to a sum of one.
Routed route(LayerBuilder& b, TensorId x, TensorId gate, const Sizes& n) {
  const TensorId logits = aten::linear(b, aten::view(b, x, {n.tokens, n.hidden}), gate, kNone);
  const TensorId p = aten::softmax(b, b.cast(logits, DType::fp32), -1);
  const std::vector<TensorId> best = top_k(b, p, n);
  const TensorId sum = aten::reduce(b, best[0], 0b10U, true, false);
  const TensorId weights = aten::binary(b, aten::Binary::div, best[0], sum, true);
  b.hold({p});
  return {logits, weights, best[1]};
}

// --- the experts --------------------------------------------------------------------------------------------------

struct Offsets {
  TensorId ends = kNone, narrow = kNone, counts = kNone;
};

// torch.histc finds the smallest and the largest element where its range is empty, as that of one expert is
// (aten/src/ATen/native/cuda/SummaryOps.cu, _histc_template).
OpaqueKernel counts_by_expert(const LayerBuilder& b, std::int64_t rows, const Sizes& n) {
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
  return aten::opaque_kernel(program, rows);
}

// Where each expert's rows end.
Offsets offsets(LayerBuilder& b, TensorId experts, const Sizes& n) {
  const TensorId narrow = b.cast(experts, DType::int32);
  const OpaqueKernel count = counts_by_expert(b, b.elements(experts), n);
  const TensorId counts = b.emit(Operator::histc, count, {narrow}, {n.experts}, DType::int32);
  b.attributes({{Attribute::min, 0}, {Attribute::max, n.experts - 1}});
  const std::int64_t bytes = cub_scan_bytes(n.experts, kCubScanTile, b.run().pytorch, kCubScanState / 2);
  const OpaqueKernel scan = aten::opaque_kernel({kResultAllocation, bytes}, n.experts);
  const TensorId ends = b.emit(Operator::cumsum, scan, {counts}, {n.experts}, DType::int32);
  b.attributes({{Attribute::dim, 0}});
  return {ends, narrow, counts};
}

// Which of the sorted rows are of experts that the rank does not have; kNone where it has all.
TensorId rows_of_others(LayerBuilder& b, TensorId experts, const Sizes& n) {
  if (!n.masks) return kNone;
  const Shape each = b.shape(experts);
  const TensorId mask =
      aten::no_grad(b, Operator::ge, {experts}, each, DType::boolean, {{Attribute::other, n.experts}});
  b.emit_in_place(Operator::clamp_max, Elementwise{each.elements()}, {experts});
  b.attributes({{Attribute::max, n.experts - 1}});
  return aten::unsqueeze(b, mask, 1);
}

TensorId masked(LayerBuilder& b, TensorId x, TensorId mask, bool in_place = false) {
  return mask == kNone ? x : aten::masked_fill(b, x, mask, 0, in_place);
}

// down(silu(gate) * up), of one projection that holds gate and up.
TensorId gated_mlp(LayerBuilder& b, TensorId x, const Weights& w, TensorId ends, TensorId mask, const Sizes& n) {
  const TensorId both = masked(b, aten::grouped_product(b, masked(b, x, mask, true), w.gate_up, ends), mask);
  const std::vector<TensorId> parts = aten::split(b, both, 1, std::array{n.inner, n.inner}, "SplitBackward0");
  const TensorId gated = aten::mul(b, aten::unary(b, parts[0], aten::kSilu), parts[1]);
  return masked(b, aten::grouped_product(b, gated, w.down, ends), mask);
}

// The places of the pairs before they were sorted.
TensorId inverse(LayerBuilder& b, TensorId places) {
  const Shape each = b.shape(places);
  const TensorId back = b.emit(Operator::empty_like, Fill{}, {places}, each, DType::int64);
  const TensorId order = aten::no_grad(b, Operator::arange, {}, each, DType::int64, {{Attribute::start, 0}});
  return b.emit_in_place(Operator::index_put_, Copy{each.elements()}, {back, places, order});
}

TensorId experts(LayerBuilder& b, TensorId x, const Routed& routed, const Weights& w, const Sizes& n) {
  const DType dtype = b.dtype(x);
  const TensorId flat = b.alias(routed.experts, {n.pairs()}, contiguous_strides({n.pairs()}));
  const std::vector<TensorId> sorted = aten::sort(b, flat, 0);
  const TensorId experts = sorted[0], places = sorted[1];
  const TensorId token =
      aten::no_grad(b, Operator::floor_divide, {places}, {n.pairs()}, DType::int64, {{Attribute::other, n.top_k}});
  const TensorId rows = rows_at(b, x, token);
  const TensorId weights = rows_at(b, aten::view(b, routed.weights, {n.pairs()}), places);
  const Offsets rows_of = offsets(b, experts, n);
  const TensorId mask = rows_of_others(b, experts, n);
  const TensorId y = gated_mlp(b, rows, w, rows_of.ends, mask, n);
  const TensorId weighted = aten::mul(b, y, aten::unsqueeze(b, weights, 1));
  const TensorId back = inverse(b, places);
  const TensorId ordered = rows_at(b, weighted, back);
  const TensorId by_token = aten::view(b, ordered, {n.tokens, n.top_k, n.hidden});
  const TensorId sum = aten::reduce(b, by_token, 0b10U, false, false);
  const TensorId out = aten::summed_in_place(b, b.cast(sum, dtype));
  b.hold({experts, places, weights, rows, rows_of.narrow, rows_of.counts, rows_of.ends, back, y, ordered, sum});
  if (mask != kNone) b.hold({mask});
  return out;
}

// --- expert parallelism -------------------------------------------------------------------------------------------

// The pairs in the order of their experts, which is that of the ranks that have them.
TensorId order_of(LayerBuilder& b, TensorId experts) {
  const std::vector<TensorId> sorted = aten::sort(b, experts, 0);
  b.hold({sorted[0]});
  return sorted[1];
}

// How many pairs the rank sends to each expert, and the same of what it is sent.
std::array<TensorId, 2> counts_of(LayerBuilder& b, TensorId experts, const Sizes& n) {
  const Shape all{n.experts};
  const std::int64_t ranks = b.run().expert_ranks;
  const TensorId zeros = b.emit(Operator::new_zeros, Fill{n.experts}, {}, all, DType::int64);
  const TensorId ones =
      b.emit(Operator::ones_like, Fill{b.elements(experts)}, {experts}, b.shape(experts), DType::int64);
  const TensorId sent = b.emit_in_place(Operator::scatter_add_, Copy{b.elements(experts)}, {zeros, ones, experts});
  const TensorId received = b.emit(Operator::empty_like, Fill{}, {sent}, all, DType::int64);
  b.emit_in_place(Operator::all_to_all, Copy{n.experts}, {received, sent});
  const TensorId by_rank = aten::view(b, sent, {ranks, n.experts / ranks});
  const TensorId from_rank = aten::view(b, received, {ranks, n.experts / ranks});
  const TensorId sums[] = {aten::reduce(b, by_rank, 0b10U, false, false),
                           aten::reduce(b, from_rank, 0b10U, false, false)};
  const TensorId sizes = aten::no_grad(b, Operator::stack, sums, {2, ranks}, DType::int64);
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
TensorId experts_of(LayerBuilder& b, TensorId received, std::int64_t rows, const Sizes& n) {
  const std::int64_t own = n.experts / b.run().expert_ranks;
  const TensorId one = aten::no_grad(b, Operator::arange, {}, {own}, DType::int64, {{Attribute::start, 0}});
  const TensorId each = b.emit(Operator::repeat, Copy{n.experts}, {one}, {n.experts}, DType::int64);
  b.hold({one});
  const TensorId ends = aten::cumsum(b, received, 0);
  const TensorId places = b.emit(Operator::repeat_interleave, Copy{rows}, {received, ends}, {rows}, DType::int64);
  b.hold({ends});
  return b.emit(Operator::index_select, Copy{rows}, {each, places}, {rows}, DType::int64);
}

// One at least: torch.sum of none stands for it.
std::int64_t rows_of_rank(const LayerBuilder& b, std::int64_t pairs) {
  const double most = static_cast<double>(checked_mul(pairs, b.run().expert_ranks));
  return static_cast<std::int64_t>(std::clamp(std::ceil(static_cast<double>(pairs) * b.run().expert_load), 1.0, most));
}

TensorId dispatched_experts(LayerBuilder& b, TensorId x, const Routed& routed, const Weights& w, const Sizes& n) {
  const DType dtype = b.dtype(x);
  const std::int64_t pairs = n.pairs(), ranks = b.run().expert_ranks;
  Sizes own = n;
  own.tokens = rows_of_rank(b, pairs);
  own.experts = n.experts / ranks;
  own.top_k = 1;
  own.masks = true;
  const TensorId ids = b.alias(routed.experts, {pairs}, contiguous_strides({pairs}));
  const TensorId order = order_of(b, ids);
  const TensorId token =
      aten::no_grad(b, Operator::floor_divide, {order}, {pairs}, DType::int64, {{Attribute::other, n.top_k}});
  const TensorId sent = rows_at(b, x, token);
  const std::array<TensorId, 2> counts = counts_of(b, ids, n);
  const TensorId rows = exchanged(b, sent, own.tokens);
  const TensorId rows_of = experts_of(b, counts[1], own.tokens, n);
  const TensorId ones = b.emit(Operator::ones_like, Fill{own.tokens}, {rows_of}, {own.tokens}, dtype);
  b.hold({sent, counts[0], counts[1]});
  const TensorId y = experts(b, rows, {.weights = ones, .experts = rows_of}, w, own);
  const TensorId back = exchanged(b, y, pairs);
  const TensorId there = b.emit(Operator::empty_like, Fill{}, {back}, b.shape(back), dtype);
  const TensorId ordered = b.emit_in_place(Operator::index_put_, Copy{b.elements(back)}, {there, back, order});
  if (NodeBuilder node = b.node("IndexPutBackward0", ordered, {back}))
    node.give(back, node.run(Operator::index, Copy{b.elements(back)}, {node.grad(), order}, b.shape(back), dtype));
  const TensorId by_token = aten::view(b, ordered, {n.tokens, n.top_k, n.hidden});
  const TensorId weighted = aten::mul(b, by_token, aten::unsqueeze(b, routed.weights, 2));
  const TensorId out = b.cast(aten::reduce(b, weighted, 0b10U, false, false), dtype);
  b.hold({rows, rows_of, ones, y, order, back, ordered});
  return out;
}

// DTensor.to_local(), before anything else of the module: the parameter has its gradient when the rest is done.
TensorId as_local(LayerBuilder& b, TensorId parameter) {
  const TensorId local = b.alias(parameter, b.shape(parameter), b.strides(parameter));
  if (NodeBuilder node = b.node("_ToTorchTensorBackward", local, {parameter})) node.give(parameter, node.grad());
  return local;
}

// The experts are a module of their own, which FSDP2 wraps: its policy converts what it is given.
TensorId apart(LayerBuilder& b, TensorId x, Routed routed, const Sizes& n) {
  const std::int64_t own = n.experts / b.run().expert_ranks;
  if (b.run().given_type) routed.weights = b.cast(routed.weights, b.run().precision);
  const LayerId within = b.begin_part("experts", "Experts");
  Weights w;
  w.gate_up = b.parameter("gate_up_proj", {own, checked_mul(2, n.inner), n.hidden});
  w.down = b.parameter("down_proj", {own, n.hidden, n.inner});
  w.gate_up = as_local(b, w.gate_up);
  w.down = as_local(b, w.down);
  const TensorId y = dispatched_experts(b, x, routed, w, n);
  b.end_part(within);
  return y;
}

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  if (in.rank() < 2) b.fail("expects an input [..., tokens, features]");
  Sizes n;
  n.hidden = b.size("hidden_size", in[-1], "input features");
  n.inner = b.size("intermediate_size");
  n.experts = b.size("num_experts");
  n.top_k = b.size("top_k");
  n.tokens = in.elements(0, in.rank() - 1);
  if (n.top_k > n.experts)
    b.fail("top_k", "top_k " + std::to_string(n.top_k) + " of " + std::to_string(n.experts) + " experts",
           "expected 1 to " + std::to_string(n.experts));
  const TensorId gate = b.parameter("gate.weight", {n.experts, n.hidden});
  const TensorId flat = aten::view(b, x, {n.tokens, n.hidden});
  const bool shared = b.run().expert_ranks > 1;
  if (shared && n.experts % b.run().expert_ranks != 0)
    b.fail("num_experts",
           std::to_string(n.experts) + " experts are not a multiple of --ep " + std::to_string(b.run().expert_ranks));
  Weights w;
  if (!shared) {
    w.gate_up = b.parameter("experts.gate_up_proj", {n.experts, checked_mul(2, n.inner), n.hidden});
    w.down = b.parameter("experts.down_proj", {n.experts, n.hidden, n.inner});
  }
  Routed routed = route(b, flat, gate, n);
  if (shared) {
    b.output(aten::view(b, apart(b, flat, routed, n), in));
  } else {
    const TensorId given = aten::summed_backward(b, flat);
    routed.weights = aten::summed_backward(b, routed.weights);
    b.output(aten::view(b, experts(b, given, routed, w, n), in));
  }
  b.hold({routed.logits, routed.weights, routed.experts});
}

const LayerDef kLayers[] = {
    {.name = "MixtureOfExperts",
     .summary = "top_k of several gated MLPs for each token, dropless, as Hugging Face's Mixtral runs them",
     .math =
         "x [..., h]: p = softmax(x G^T) in fp32, the top_k experts of each token and their weights w scaled to sum "
         "1;\ny = sum of w_e D_e (silu(A_e x) * B_e x) over them. G [E, h], A and B together [E, 2 i, h], D [E, h, "
         "i].\nWith n tokens n E h + 3 n top_k h i multiply-adds. Saved: x, p, the order of the pairs and their "
         "weights, and\nfor each pair its row, gate, up, silu, their product, and its result.",
     .parameters = {{"hidden_size", ParameterType::size, "", "h, size of the last dimension, or _"},
                    {"intermediate_size", ParameterType::size, "", "i, of one expert"},
                    {"num_experts", ParameterType::size, "8", "E"},
                    {"top_k", ParameterType::size, "2", "experts a token"}},
     .lower = lower,
     .example = {.call = "MixtureOfExperts(32, 64, num_experts=4, top_k=2)",
                 .input_shapes = {{2, 8, 32}},
                 .parameters = 24'704,
                 .forward_macs = 198'656,
                 .backward_macs = 397'312,
                 .saved_bytes = 44'624,
                 .derivation = "4*32 + 4*128*32 + 4*32*64 parameters; 16 tokens: 16*32*4 + 32*32*192 multiply-adds; "
                               "saved: x 2048 bytes, router 704, order of the 32 pairs 768 and 16, rows 4096, both "
                               "projections 16384, silu 8192, their product 8192, results 4096, weights 128"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::mixture_of_experts
