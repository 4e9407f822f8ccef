// Decoders that are not of Llama's kind: transformers/models/gpt2, opt and phi.
#include <cstdlib>

#include "tools/importers/families.h"
#include "tools/importers/heads.h"

namespace gpuplan {

namespace {

void begin(const Config& config, const std::string& architecture, const StackKeys& keys, const StackSizes& s,
           SpecText& spec) {
  spec.set_comment(stack_comment(config, architecture, s));
  spec.set_name(config.word("model_type", ""));
  spec.set("hidden", s.hidden, std::string(keys.hidden));
  spec.set("heads", s.heads, std::string(keys.heads));
  spec.set("layers", s.layers, std::string(keys.layers));
}

void untie(const Config& config, std::string_view tie, SpecText& spec) {
  if (!config.flag("tie_word_embeddings", true)) spec.replace(tie, "}");
}

// OPT-350M normalizes behind attention and the products, and has no norm behind its layers.
void set_norms_behind(SpecText& spec) {
  spec.replace("      - self_attn_layer_norm: LayerNorm($hidden)\n", "");
  spec.replace("from: [self_attn_layer_norm, input.1]", "from: [input, input.1]");
  spec.replace("      - {name: attended, op: Add(), from: [input, dropped]}\n",
               "      - {name: attended, op: Add(), from: [input, dropped]}\n"
               "      - {name: self_attn_layer_norm, op: LayerNorm($hidden), keep: true}\n");
  spec.replace("      - final_layer_norm: LayerNorm($hidden)\n", "");
  spec.replace("      - View(-1, $seq, $hidden)\n",
               "      - View(-1, $seq, $hidden)\n      - final_layer_norm: LayerNorm($hidden)\n");
  spec.replace("order: [embed_tokens, embed_positions, final_layer_norm, layers]",
               "order: [embed_tokens, embed_positions, layers]");
}

// Its embeddings are smaller than the states, too.
void set_projections(std::int64_t size, std::int64_t hidden, bool norm_last, SpecText& spec) {
  if (size == hidden) return;
  spec.set("embedded", size, "word_embed_proj_dim");
  // inputs_embeds = self.project_in(inputs_embeds): the table's rows go once they are projected
  spec.replace("\"Embedding($vocabulary, $hidden, padding_idx=1)\", keep: true}",
               "\"Embedding($vocabulary, $embedded, padding_idx=1)\"}");
  spec.replace("      - {name: embedded, op: Add(), from: [embed_tokens, embed_positions]}\n",
               "      - {name: project_in, op: \"Linear(_, $hidden, bias=False)\", from: embed_tokens, keep: true}\n"
               "      - {name: embedded, op: Add(), from: [project_in, embed_positions]}\n");
  std::string last =
      "      - {name: layers, block: OPTDecoderLayer, repeat: $layers, loop: true, "
      "from: [embedded, mask, position_ids.0]}\n";
  if (norm_last) last += "      - final_layer_norm: LayerNorm($hidden)\n";
  spec.replace(last, last + "      - project_out: Linear(_, $embedded, bias=False)\n");
  spec.replace("embed_tokens, embed_positions,", "embed_tokens, embed_positions, project_out, project_in,");
}

}  // namespace

SpecText gpt2_spec(const Config& config) {
  const std::string architecture = config.architecture("GPT2LMHeadModel");
  const Head head = head_of(config, architecture, "GPT2", "LMHeadModel",
                            {Head::language_model, Head::none, Head::samples, Head::tokens, Head::span});
  config.refuse("reorder_and_upcast_attn", "attention is then computed by other operations");
  if (!config.flag("scale_attn_weights", true) || config.flag("scale_attn_by_inverse_layer_idx", false))
    throw config.wrong(
        config.flag("scale_attn_weights", true) ? "scale_attn_by_inverse_layer_idx" : "scale_attn_weights",
        "attention with another scale is not modelled");
  const StackKeys keys{"n_embd", "n_head", "n_layer"};
  const StackSizes s = sizes_of(config, keys, {768, 12, 12});
  SpecText spec = template_text("gpt2");
  begin(config, architecture, keys, s, spec);
  const std::int64_t positions = config.size("n_positions", 1024);
  set_tokens(spec, "seq", 1024, positions, "n_positions");
  spec.set("vocabulary", config.size("vocab_size", 50257), "vocab_size");
  spec.set("positions", positions, "n_positions");
  spec.set("packed", 0, "1: several sequences are packed into one, so SDPA kernels get a mask");
  if (config.find("n_inner") != nullptr) {
    spec.replace("Conv1D(${4*hidden}, _)", "Conv1D($inner, _)");
    spec.set("inner", config.size("n_inner"), "n_inner");
  }
  const std::string eps = config.positive("layer_norm_epsilon", "1e-5");
  if (std::strtod(eps.c_str(), nullptr) != 1e-5)
    spec.replace("LayerNorm($hidden)", "LayerNorm($hidden, eps=" + eps + ")");
  const std::string dropout = config.share("resid_pdrop", "0.1");
  spec.replace("resid_dropout: Dropout(0.1)", "resid_dropout: Dropout(" + dropout + ")");
  spec.replace("- dropout: Dropout(0.1)", "- dropout: Dropout(" + dropout + ")");
  spec.replace("drop, op: Dropout(0.1)", "drop, op: Dropout(" + config.share("embd_pdrop", "0.1") + ")");
  spec.replace("HuggingFaceAttention(dropout=0.1", "HuggingFaceAttention(dropout=" + config.share("attn_pdrop", "0.1"));
  spec.replace("act: NewGELU()", "act: " + activation_call(config, "activation_function", "gelu_new"));
  untie(config, ", tie: transformer.wte}", spec);
  Stack stack;
  stack.block = "GPT2Model";
  stack.name = "transformer";
  stack.dropout = token_dropout(config);
  stack.tokens = "classifier";
  stack.casts_to_fp32 = false;
  set_head(config, head, stack, spec);
  return spec;
}

SpecText opt_spec(const Config& config) {
  const std::string architecture = config.architecture("OPTForCausalLM");
  const Head head = head_of(config, architecture, "OPT", "ForCausalLM",
                            {Head::language_model, Head::none, Head::samples, Head::span});
  const StackKeys keys;
  const StackSizes s = sizes_of(config, keys, {768, 12, 12});
  for (const char* key : {"enable_bias", "layer_norm_elementwise_affine"})
    if (!config.flag(key, true)) throw config.wrong(key, "\"" + std::string(key) + "\": false is not modelled");
  config.refuse("_remove_final_layer_norm", "the last norm is then missing");
  config.refuse("layerdrop", "training then drops layers at random");
  SpecText spec = template_text("opt_125m");
  begin(config, architecture, keys, s, spec);
  const std::int64_t positions = config.size("max_position_embeddings", 2048);
  set_tokens(spec, "seq", 512, positions, "max_position_embeddings");
  spec.set("vocabulary", config.size("vocab_size", 50272), "vocab_size");
  spec.set("positions", positions, "max_position_embeddings");
  spec.set("inner", config.size("ffn_dim", 3072), "ffn_dim");
  const bool norms_before = config.flag("do_layer_norm_before", true);
  if (!norms_before) set_norms_behind(spec);
  set_projections(config.size("word_embed_proj_dim", s.hidden), s.hidden, norms_before, spec);
  spec.replace("Scale(0.125)", "Scale(" + inverse_root(s.head()) + ")");
  const std::string dropout = config.share("dropout", "0.1");
  spec.replace("dropped: Dropout(0.1)", "dropped: Dropout(" + dropout + ")");
  spec.replace("dropped_again: Dropout(0.1)", "dropped_again: Dropout(" + dropout + ")");
  const std::string weights = config.share("attention_dropout", "0.0");
  if (weights != "0.0")
    spec.replace("HuggingFaceAttention(softmax=fp32)", "HuggingFaceAttention(dropout=" + weights + ", softmax=fp32)");
  spec.replace("activation_fn: ReLU()", "activation_fn: " + activation_call(config, "activation_function", "relu"));
  untie(config, ", tie: model.decoder.embed_tokens}", spec);
  Stack stack;
  stack.block = "OPTDecoder";
  stack.name = stack.of_span = "model.decoder";
  stack.bare_name = "decoder";
  set_head(config, head, stack, spec);
  return spec;
}

SpecText phi_spec(const Config& config) {
  const std::string architecture = config.architecture("PhiForCausalLM");
  const Head head = head_of(config, architecture, "Phi", "ForCausalLM",
                            {Head::language_model, Head::none, Head::samples, Head::tokens});
  config.refuse("qk_layernorm", "queries and keys are then normalized");
  const StackKeys keys;
  const StackSizes s = sizes_of(config, keys, {2048, 32, 24});
  const std::int64_t kv_heads = config.size("num_key_value_heads", s.heads);
  if (s.heads % kv_heads != 0)
    throw config.wrong("num_key_value_heads", std::to_string(s.heads) + " heads cannot share " +
                                                  std::to_string(kv_heads) + " heads of keys and values evenly");
  SpecText spec = template_text("phi");
  begin(config, architecture, keys, s, spec);
  set_tokens(spec, "seq", 2048, config.size("max_position_embeddings", 2048), "max_position_embeddings");
  spec.set("vocabulary", config.size("vocab_size", 51200), "vocab_size");
  spec.set("inner", config.size("intermediate_size", 8192), "intermediate_size");
  spec.set("kv_heads", kv_heads, "num_key_value_heads");
  spec.set("head", s.head(), "hidden_size / num_attention_heads");
  set_rotary(config, {.theta = "10000.0", .part = "0.5", .dimension = "$rotary", .head = s.head()}, spec);
  const std::string eps = config.positive("layer_norm_eps", "1e-5");
  if (std::strtod(eps.c_str(), nullptr) != 1e-5)
    spec.replace("LayerNorm($hidden)", "LayerNorm($hidden, eps=" + eps + ")");
  const std::string dropout = config.share("resid_pdrop", "0.0");
  spec.replace("attn_outputs, op: Dropout(0.0)", "attn_outputs, op: Dropout(" + dropout + ")");
  spec.replace("feed_forward_hidden_states, op: Dropout(0.0)",
               "feed_forward_hidden_states, op: Dropout(" + dropout + ")");
  spec.replace("embed_dropout, op: Dropout(0.0)",
               "embed_dropout, op: Dropout(" + config.share("embd_pdrop", "0.0") + ")");
  const std::string weights = config.share("attention_dropout", "0.0");
  if (weights != "0.0") spec.replace("GroupedQueryAttention()", "GroupedQueryAttention(dropout=" + weights + ")");
  spec.replace("activation_fn: NewGELU()", "activation_fn: " + activation_call(config, "hidden_act", "gelu_new"));
  if (config.flag("tie_word_embeddings", false))
    spec.replace("  - lm_head: Linear(_, $vocabulary)\n",
                 "  - {name: lm_head, op: \"Linear(_, $vocabulary)\", tie: model.embed_tokens}\n");
  Stack stack;
  stack.block = "PhiModel";
  stack.name = "model";
  stack.dropout = token_dropout(config);
  set_head(config, head, stack, spec);
  return spec;
}

}  // namespace gpuplan
