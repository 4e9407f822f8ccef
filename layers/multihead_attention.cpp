// MultiheadAttention: softmax(q k^T / sqrt(E / heads)) v in every head, of one tensor with itself.
//
// Packed projections, which are copied to [3, T, N, E]; scaled_dot_product_attention, or products with
// need_weights=True; a projection back. Without a gradient and autocast nn.MultiheadAttention takes a fast path without
// those copies (estimator/aten/multihead_attention.h).

#include <string>

#include "estimator/aten/multihead_attention.h"

namespace gpuplan::layers::multihead_attention {
namespace {

void lower(LayerBuilder& b) {
  b.expect_rank(3, "[N, T, E], or [T, N, E] without batch_first");
  const std::int64_t embed = b.size("embed_dim", b.shape(b.input())[2], "features");
  const std::int64_t heads = b.size("num_heads");
  if (embed % heads != 0)
    b.fail("num_heads", std::to_string(embed) + " features do not divide into " + std::to_string(heads) + " heads");
  const double p = b.real("dropout");
  if (!(p >= 0 && p < 1)) b.fail("dropout", "dropout is a probability", "expected 0 <= dropout < 1");
  for (const std::string_view name : {"add_bias_kv", "add_zero_attn"})
    if (b.boolean(name)) b.fail(name, std::string(name) + " is not supported", "expected False");
  for (const std::string_view name : {"kdim", "vdim"})
    if (b.given(name)) b.fail(name, "keys and values of another size are not supported", "expected None");
  aten::MultiheadAttention mha = aten::multihead_attention_weights(b, embed, b.boolean("bias"));
  mha.heads = heads;
  mha.dropout = p;
  mha.batch_first = b.boolean("batch_first");
  mha.need_weights = b.boolean("need_weights");
  b.output(aten::multihead_attention(b, b.input(), mha));
}

const LayerDef kLayers[] = {
    {.name = "MultiheadAttention",
     .summary = "self attention with several heads",
     .math =
         "x [N, T, E] -> [N, T, E]: q, k, v = x W_in^T + b_in, softmax(q k^T / sqrt(E / heads)) v, then W_out, b_out.\n"
         "4 N T E^2 + 2 N T^2 E multiply-adds. need_weights is the argument of its call.",
     .parameters = {{"embed_dim", ParameterType::size, "", "features of the input, or _"},
                    {"num_heads", ParameterType::size, "", "heads"},
                    {"dropout", ParameterType::real, "0.0", "of the weights, in training"},
                    {"bias", ParameterType::boolean, "True", "biases of the projections"},
                    {"add_bias_kv", ParameterType::boolean, "False", "not supported: False"},
                    {"add_zero_attn", ParameterType::boolean, "False", "not supported: False"},
                    {"kdim", ParameterType::integer, "None", "not supported: None"},
                    {"vdim", ParameterType::integer, "None", "not supported: None"},
                    {"batch_first", ParameterType::boolean, "False", "[N, T, E] instead of [T, N, E]"},
                    {"need_weights", ParameterType::boolean, "True", "computes the weights' mean, too"}},
     .lower = lower,
     .example =
         {.call = "MultiheadAttention(64, 4, batch_first=True)",
          .input_shapes = {{2, 16, 64}},
          .parameters = 16'640,
          .forward_macs = 589'824,
          .backward_macs = 1'179'648,
          .saved_bytes = 57'344,
          .derivation =
              "3*64*64 + 192 + 64*64 + 64 parameters; 4*32*64*64 + 2*8*16*16*16 multiply-adds; the input's copy, the "
              "scaled queries, the weights and the result by rows are 8,192 bytes each, the packed projections "
              "24,576"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::multihead_attention
