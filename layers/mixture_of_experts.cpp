// MixtureOfExperts: a router that sends each token to top_k of several gated MLPs, as Hugging Face's Mixtral has it.
//
// transformers/models/mixtral/modeling_mixtral.py and integrations/moe.py, grouped_mm_experts_forward: the chosen
// (token, expert) pairs are sorted by expert, their rows gathered, both projections of all experts run as one grouped
// product each, and the weighted rows are put back in order and summed by token. Dropless: every pair is computed, so
// no size depends on what the router chooses. Names of a Python function live until it returns. The same is assumed of
// releases and GPUs whose transformers runs the experts one by one.
//
// Ranks that have some of the experts each: estimator/aten/experts.h, experts_of_ranks().

#include <string>

#include "estimator/aten/experts.h"
#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::mixture_of_experts {
namespace {

std::vector<TensorId> top_k(LayerBuilder& b, TensorId p, const aten::ExpertSizes& n) {
  const Shape each{n.tokens, n.top_k};
  const OutputSpec results[] = {{each, DType::fp32}, {each, DType::int64}};
  std::vector<TensorId> best = b.emit_many(Operator::topk, Elementwise{b.elements(p)}, {p}, results);
  b.attributes({{Attribute::k, n.top_k}, {Attribute::dim, 1}});
  aten::scatter_gradient(b, "TopkBackward0", p, best[0], best[1], 1);
  return best;
}

// The weights of each token's experts, scaled to a sum of one.
aten::Routed route(LayerBuilder& b, TensorId x, TensorId gate, const aten::ExpertSizes& n) {
  const TensorId logits = aten::linear(b, aten::view(b, x, {n.tokens, n.hidden}), gate, kNone);
  const TensorId p = aten::softmax(b, b.cast(logits, DType::fp32), -1);
  const std::vector<TensorId> best = top_k(b, p, n);
  const TensorId sum = aten::reduce(b, best[0], 0b10U, true, false);
  const TensorId weights = aten::binary(b, aten::Binary::div, best[0], sum, true);
  b.hold({p});
  return {logits, weights, best[1]};
}

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  if (in.rank() < 2) b.fail("expects an input [..., tokens, features]");
  aten::ExpertSizes n;
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
  aten::ExpertWeights w;
  if (!shared) {
    w.gate_up = b.parameter("experts.gate_up_proj", {n.experts, checked_mul(2, n.inner), n.hidden});
    w.down = b.parameter("experts.down_proj", {n.experts, n.hidden, n.inner});
  }
  aten::Routed routed = route(b, flat, gate, n);
  if (shared) {
    b.output(aten::view(b, aten::experts_of_ranks(b, flat, routed, n, "experts"), in));
  } else {
    const TensorId given = aten::summed_backward(b, flat);
    routed.weights = aten::summed_backward(b, routed.weights);
    b.output(aten::view(b, aten::experts(b, given, routed, w, n), in));
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
