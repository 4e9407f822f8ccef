// Decoders that are not of Llama's kind: transformers/models/gpt2, opt and phi.
#include <cstdlib>

#include "tools/importers/families.h"

namespace gpuplan {

namespace {

struct Sizes {
  std::int64_t hidden, heads, layers;
  std::int64_t head() const { return hidden / heads; }
};

struct Keys {
  std::string_view hidden, heads, layers;
};

Sizes sizes_of(const Config& config, const Keys& keys, const Sizes& otherwise) {
  const Sizes s{config.size(keys.hidden, otherwise.hidden), config.size(keys.heads, otherwise.heads),
                config.size(keys.layers, otherwise.layers)};
  if (s.hidden % s.heads != 0)
    throw config.wrong(keys.heads, "\"" + std::string(keys.hidden) + "\" " + std::to_string(s.hidden) +
                                       " cannot be divided into " + std::to_string(s.heads) + " heads");
  return s;
}

void begin(const Config& config, const std::string& architecture, const Keys& keys, const Sizes& s, SpecText& spec) {
  spec.set_comment(architecture + " of " + config.file() + ": " + std::to_string(s.layers) + " layers of " +
                   std::to_string(s.heads) + " heads.\n");
  spec.set_name(config.word("model_type", ""));
  spec.set("hidden", s.hidden, std::string(keys.hidden));
  spec.set("heads", s.heads, std::string(keys.heads));
  spec.set("layers", s.layers, std::string(keys.layers));
}

void untie(const Config& config, std::string_view tie, SpecText& spec) {
  if (!config.flag("tie_word_embeddings", true)) spec.replace(tie, "}");
}

}  // namespace

SpecText gpt2_spec(const Config& config) {
  const std::string architecture = config.architecture("GPT2LMHeadModel");
  expect_architecture(config, architecture, {"GPT2LMHeadModel"});
  config.refuse("reorder_and_upcast_attn", "attention is then computed by other operations");
  if (!config.flag("scale_attn_weights", true) || config.flag("scale_attn_by_inverse_layer_idx", false))
    throw config.wrong(
        config.flag("scale_attn_weights", true) ? "scale_attn_by_inverse_layer_idx" : "scale_attn_weights",
        "attention with another scale is not modelled");
  const Keys keys{"n_embd", "n_head", "n_layer"};
  const Sizes s = sizes_of(config, keys, {768, 12, 12});
  SpecText spec = template_text("gpt2");
  begin(config, architecture, keys, s, spec);
  const std::int64_t positions = config.size("n_positions", 1024);
  set_tokens(spec, "seq", 1024, positions, "n_positions");
  spec.set("vocabulary", config.size("vocab_size", 50257), "vocab_size");
  spec.set("positions", positions, "n_positions");
  spec.set("packed", 1, "0: sequences are not packed, so SDPA kernels get no mask");
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
  return spec;
}

SpecText opt_spec(const Config& config) {
  const std::string architecture = config.architecture("OPTForCausalLM");
  expect_architecture(config, architecture, {"OPTForCausalLM"});
  const Keys keys{"hidden_size", "num_attention_heads", "num_hidden_layers"};
  const Sizes s = sizes_of(config, keys, {768, 12, 12});
  for (const char* key : {"do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"})
    if (!config.flag(key, true)) throw config.wrong(key, "\"" + std::string(key) + "\": false is not modelled");
  config.refuse("_remove_final_layer_norm", "the last norm is then missing");
  config.refuse("layerdrop", "training then leaves out layers by chance");
  if (config.size("word_embed_proj_dim", s.hidden) != s.hidden)
    throw config.wrong("word_embed_proj_dim", "embeddings of another size than the states are not modelled");
  SpecText spec = template_text("opt_125m");
  begin(config, architecture, keys, s, spec);
  const std::int64_t positions = config.size("max_position_embeddings", 2048);
  set_tokens(spec, "seq", 512, positions, "max_position_embeddings");
  spec.set("vocabulary", config.size("vocab_size", 50272), "vocab_size");
  spec.set("positions", positions, "max_position_embeddings");
  spec.set("inner", config.size("ffn_dim", 3072), "ffn_dim");
  spec.replace("Scale(0.125)", "Scale(" + inverse_root(s.head()) + ")");
  const std::string dropout = config.share("dropout", "0.1");
  spec.replace("dropped: Dropout(0.1)", "dropped: Dropout(" + dropout + ")");
  spec.replace("dropped_again: Dropout(0.1)", "dropped_again: Dropout(" + dropout + ")");
  const std::string weights = config.share("attention_dropout", "0.0");
  if (weights != "0.0")
    spec.replace("HuggingFaceAttention(softmax=fp32)", "HuggingFaceAttention(dropout=" + weights + ", softmax=fp32)");
  spec.replace("activation_fn: ReLU()", "activation_fn: " + activation_call(config, "activation_function", "relu"));
  untie(config, ", tie: model.decoder.embed_tokens}", spec);
  return spec;
}

SpecText phi_spec(const Config& config) {
  const std::string architecture = config.architecture("PhiForCausalLM");
  expect_architecture(config, architecture, {"PhiForCausalLM"});
  config.refuse("qk_layernorm", "queries and keys are then normalized");
  const Keys keys{"hidden_size", "num_attention_heads", "num_hidden_layers"};
  const Sizes s = sizes_of(config, keys, {2048, 32, 24});
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
  return spec;
}

}  // namespace gpuplan
