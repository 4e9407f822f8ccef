// Experts: the gated MLPs that a router, written before it, chooses of for each token, as transformers' classes of
// experts run them (integrations/moe.py, grouped_mm_experts_forward): see layers/mixture_of_experts.cpp, which has the
// router of one family in itself. Ranks that have some of the experts each: estimator/aten/experts.h.

#include <optional>

#include "estimator/aten/experts.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::experts {
namespace {

void lower_experts(LayerBuilder& b, std::optional<aten::ClampedGate> clamped) {
  const TensorId x = b.input(0);
  const Shape in = b.shape(x), chosen = b.shape(b.input(1));
  if (in.rank() != 2) b.fail("expects rows [tokens, features], got " + to_string(in));
  if (chosen.rank() != 2 || chosen[0] != in[0])
    b.fail("expects the experts of " + std::to_string(in[0]) + " tokens, got " + to_string(chosen));
  if (b.shape(b.input(2)) != chosen)
    b.fail("expects a weight for each of " + to_string(chosen) + " experts, got " + to_string(b.shape(b.input(2))));
  aten::ExpertSizes n;
  n.tokens = in[0];
  n.hidden = b.size("hidden_size", in[1], "input features");
  n.inner = b.size("intermediate_size");
  n.experts = b.size("num_experts");
  n.top_k = chosen[1];
  n.clamped = clamped;
  if (n.top_k > n.experts) b.fail(std::to_string(n.top_k) + " of " + std::to_string(n.experts) + " experts are chosen");
  aten::Routed routed{.weights = b.input(2), .experts = b.input(1)};
  if (b.run().expert_ranks > 1) return b.output(aten::experts_of_ranks(b, x, routed, n, ""));
  const aten::ExpertWeights w = aten::expert_weights(b, n);
  const TensorId given = aten::summed_backward(b, x);
  routed.weights = aten::summed_backward(b, routed.weights);
  b.output(aten::experts(b, given, routed, w, n));
}

void lower(LayerBuilder& b) { lower_experts(b, {}); }

void lower_gpt_oss(LayerBuilder& b) {
  lower_experts(b, aten::ClampedGate{.alpha = b.real("alpha"), .limit = b.real("limit")});
}

const ParameterDef kHidden{"hidden_size", ParameterType::size, "", "h, size of the last dimension, or _"};
const ParameterDef kInner{"intermediate_size", ParameterType::size, "", "i, of one expert"};
const ParameterDef kCount{"num_experts", ParameterType::size, "8", "E"};

const LayerDef kLayers[] = {
    {.name = "Experts",
     .summary = "gated MLPs for the tokens that chose them, dropless, as transformers' classes of experts run them",
     .math =
         "x [n, h], experts [n, k] of int64, their weights w [n, k] -> [n, h]: y = sum of w_e D_e (silu(A_e x) * B_e "
         "x)\nover the experts of each token. A and B together [E, 2 i, h], D [E, h, i]. 3 n k h i multiply-adds.\n"
         "Saved: the order of the pairs and their weights, and for each pair its row, gate, up, silu, their product, "
         "and\n"
         "its result.",
     .parameters = {kHidden, kInner, kCount},
     .min_inputs = 3,
     .lower = lower,
     .example = {.call = "Experts(32, 64, num_experts=4)",
                 .input_shapes = {{16, 32}, {16, 2}, {16, 2}},
                 .parameters = 24'576,
                 .forward_macs = 196'608,
                 .backward_macs = 393'216,
                 .saved_bytes = 41'872,
                 .derivation = "4*128*32 + 4*32*64 parameters; 16 tokens of 2 experts: 32*32*192 multiply-adds; saved: "
                               "order of the 32 pairs 768 and 16, rows 4096, both projections 16384, silu 8192, their "
                               "product 8192, results 4096, weights 128"}},
    {.name = "GptOssExperts",
     .summary = "the same with biases and a clamped gate, as gpt-oss has them",
     .math =
         "x [n, h], experts [n, k] of int64, their weights w [n, k] -> [n, h]: y = sum of w_e (D_e z + d_e) over the\n"
         "experts of each token, z = (u + 1) g sigmoid(alpha g), g and u every other number of G_e x + c_e, clamped "
         "to\n"
         "the limit. G [E, h, 2 i], c [E, 2 i], D [E, i, h], d [E, h]. 3 n k h i multiply-adds. Saved: the order of\n"
         "the pairs, their experts and weights, and for each pair its row, both projections, and of its gate five "
         "times i.",
     .parameters = {kHidden,
                    kInner,
                    kCount,
                    {"alpha", ParameterType::real, "1.702", "of the sigmoid"},
                    {"limit", ParameterType::real, "7.0", "of gate and up"}},
     .min_inputs = 3,
     .lower = lower_gpt_oss,
     .example = {.call = "GptOssExperts(32, 64, num_experts=4)",
                 .input_shapes = {{16, 32}, {16, 2}, {16, 2}},
                 .parameters = 25'216,
                 .forward_macs = 196'608,
                 .backward_macs = 393'216,
                 .saved_bytes = 66'576,
                 .derivation =
                     "4*32*128 + 4*128 + 4*64*32 + 4*32 parameters; 16 tokens of 2 experts: 32*32*192 "
                     "multiply-adds; saved: order of the 32 pairs 768, their experts 128, ends 16, rows 4096, "
                     "the first projection 16384, gate, its sigmoid, their product, up + 1 and the product of "
                     "all 5*8192, results 4096, weights 128"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::experts
