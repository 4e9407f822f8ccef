#include "tools/importers/megatron_model.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

namespace gpuplan {
namespace {

constexpr std::string_view kSizes = R"spec(gpuplan: 1
name: megatron_gpt
vars:
  seq: @tokens
  vocabulary: @vocabulary
  hidden: @hidden
  inner: @inner
  layers: @layers
  heads: @heads
  groups: @groups
  head: @head
inputs:
  tokens: {shape: [$seq], dtype: int64}
  labels: {shape: [$seq], dtype: int64}
  positions: {shape: [$seq], dtype: int64}
blocks:
)spec";

// GPTModel and TransformerLayer (megatron/core 0.16) call by call. `keep`: local variables of the functions; the
// results of one call that a tuple holds until the function returns are kept with it.
constexpr std::string_view kLocal = R"spec(  CoreAttention:  # where it is recomputed
    layers:
      - {name: attention, op: MegatronAttention(), from: [input, input.1, input.2, input.3]}
  SelfAttention:  # of the normalized input, the rotary table and the buffer of scores
    order: [linear_proj, linear_qkv]
    layers:
      - linear_qkv: MegatronLinear(_, ${(heads+2*groups)*head})
      - {name: qkv, op: "MegatronQueryKeyValue($groups, $head)", keep: true}
      - {name: query, op: MegatronRotary(), from: [qkv.0, input.1], keep: true}
      - {name: key, op: MegatronRotary(), from: [qkv.1, input.1], keep: true}
      - {name: core_attention, @attention, from: [query, key, qkv.2, input.2], keep: true}
      - linear_proj: MegatronLinear(_, $hidden, row=True)
  MLP:
    layers:
      - linear_fc1: MegatronLinear(_, ${2*inner})
      - {name: swiglu, op: MegatronSwiGLU(), keep: true}
      - linear_fc2: MegatronLinear(_, $hidden, row=True)
  TransformerLayer:
    layers:
      - input_layernorm: @norm
      - {name: self_attention, block: SelfAttention, from: [input_layernorm, input.1, input.2]}
      - {name: sum, op: Add(), from: [input, self_attention]}
      - {name: attended, op: Rebind(), from: [sum, input_layernorm, self_attention]}  # _forward_attention returns
      - pre_mlp_layernorm: @norm
      - {name: mlp, block: MLP}
      - {name: total, op: Add(), from: [attended, mlp]}
      - {name: output, op: Rebind(), from: [total, pre_mlp_layernorm, mlp, attended]}  # _forward_mlp does
  Embedding:
    layers:
      - word_embeddings: MegatronEmbedding($vocabulary, $hidden)
      - Transpose(0, 1)
      - Contiguous()
  Decoder:
    layers:
      - {name: layers, block: TransformerLayer, repeat: $layers, loop: true, from: [input, input.1, input.2]}
      - final_layernorm: @norm
layers:
  - {name: embedding, block: Embedding, from: tokens, keep: true}
  - {name: rotary_pos_emb, op: "MegatronRotaryTable($seq, $head)", keep: true}
  - {name: buffer, op: "MegatronBuffer(${heads*seq*seq})", from: positions, keep: true}
  - {name: decoder, block: Decoder, from: [embedding, rotary_pos_emb, buffer], keep: true}
  - {name: output_layer, op: "MegatronLinear(_, $vocabulary)", keep: true}
  - {name: losses, op: MegatronCrossEntropy(), from: [output_layer, labels]}
loss: MegatronLoss()
)spec";

// The same of get_gpt_layer_with_transformer_engine_spec: norms are part of the products that follow them.
constexpr std::string_view kTransformerEngine = R"spec(  CoreAttention:  # where it is recomputed
    layers:
      - {name: attention, op: @ring, from: [input, input.1, input.2, input.3]}
  SelfAttention:  # of hidden states, the rotary table and the lengths
    order: [linear_proj, linear_qkv]
    layers:
      - linear_qkv: TELayerNormLinear(_, ${(heads+2*groups)*head}@sequence)
      - {name: qkv, op: "MegatronQueryKeyValue($groups, $head)", keep: true}
      - {name: query, op: TERotary(), from: [qkv.0, input.1], keep: true}
      - {name: key, op: TERotary(), from: [qkv.1, input.1], keep: true}
      - {name: core_attention, @attention, from: [query, key, qkv.2, input.2], keep: true}
      - linear_proj: TELinear(_, $hidden@sequence)
  MLP:
    layers:
      - linear_fc1: TELayerNormLinear(_, ${2*inner}@sequence)
      - {name: swiglu, op: MegatronSwiGLU(), keep: true}
      - linear_fc2: TELinear(_, $hidden@sequence)
  TransformerLayer:
    layers:
      - {name: self_attention, block: SelfAttention, from: [input, input.1, input.2]}
      - {name: sum, op: Add(), from: [input, self_attention]}
      - {name: attended, op: Rebind(), from: [sum, self_attention]}  # _forward_attention returns
      - {name: mlp, block: MLP}
      - {name: total, op: Add(), from: [attended, mlp]}
      - {name: output, op: Rebind(), from: [total, mlp, attended]}  # _forward_mlp does
  Embedding:
    layers:
      - word_embeddings: MegatronEmbedding($vocabulary, $hidden@sequence)@first
  Decoder:
    layers:
      - {name: layers, block: TransformerLayer, repeat: $layers, loop: true, from: [input, input.1, input.2]}
      - final_layernorm: TENorm()
layers:
  - {name: embedding, block: Embedding, from: tokens, keep: true}
  - {name: rotary_pos_emb, op: "MegatronRotaryTable($seq, $head)", keep: true}
  - {name: lengths, op: TESequenceLengths(@parts), from: positions, keep: true}
  - {name: decoder, block: Decoder, from: [embedding, rotary_pos_emb, lengths], keep: true}
  - {name: output_layer, op: "MegatronLinear(_, $vocabulary@sequence)", keep: true}
  - {name: losses, op: MegatronCrossEntropy(), from: [output_layer, labels]}
loss: MegatronLoss()
)spec";

// LanguageModelEmbedding.forward, where the embedding has not done it.
constexpr std::string_view kTokensFirst = "\n      - Transpose(0, 1)\n      - Contiguous()";

std::string attention_of_engine(const MegatronModel& m) {
  return m.context > 1 ? "TERingAttention(" + std::to_string(m.context) + ")" : "TEDotProductAttention()";
}

std::string core_attention(const MegatronModel& m) {
  if (m.recomputes_attention) return "block: CoreAttention, checkpoint: reentrant";
  return "op: " + (m.transformer_engine ? attention_of_engine(m) : "MegatronAttention()");
}

}  // namespace

std::string megatron_spec(const MegatronModel& m) {
  char epsilon[32];
  std::snprintf(epsilon, sizeof epsilon, "%.17g", m.epsilon);
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const bool sequence = m.sequence_parallel && m.ranks > 1;
  const std::array<std::pair<std::string_view, std::string>, 14> values{{
      {"@tokens", number(m.tokens / m.context)},
      {"@vocabulary", number(m.vocabulary / m.ranks)},
      {"@hidden", number(m.hidden)},
      {"@inner", number(m.inner / m.ranks)},
      {"@layers", number(m.layers)},
      {"@heads", number(m.heads / m.ranks)},
      {"@groups", number(m.groups / m.ranks)},
      {"@head", number(m.head)},
      {"@norm", std::string("RMSNorm($hidden, eps=") + epsilon + ")"},
      {"@attention", core_attention(m)},
      {"@ring", attention_of_engine(m)},
      {"@parts", m.context > 1 ? number(m.context) : std::string()},
      {"@sequence", sequence ? ", sequence=True" : ""},
      {"@first", sequence ? std::string() : std::string(kTokensFirst)},
  }};
  std::string text(kSizes);
  text += m.transformer_engine ? kTransformerEngine : kLocal;
  for (const auto& [name, value] : values)
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
      text.replace(at, name.size(), value);
  return text;
}

}  // namespace gpuplan
