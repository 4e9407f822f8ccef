// The decoders of Llama's kind: rotary positions, root-mean-square norms, gated products. In transformers they are the
// same code but for a few lines (transformers/models/llama/modeling_llama.py, and modular_*.py of the others).
#include <cstdlib>

#include "tools/importers/families.h"
#include "tools/importers/heads.h"
#include "tools/importers/windows.h"

namespace gpuplan {

namespace {

// Defaults of the configuration class, and the zoo's model.
struct Decoder {
  std::string prefix;  // of the class: LlamaForCausalLM
  std::string model;   // whose text is used
  std::int64_t vocabulary = 0, hidden = 4096, inner = 0, layers = 32, heads = 32;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head = 0;      // 0: hidden / heads
  std::int64_t positions = 0;
  std::string activation = "silu", eps = "1e-6", theta = "10000.0";
  bool tied = false;
  bool finds_spans = true;
  void (*windows)(const Config&, std::int64_t layers, SpecText&) = nullptr;  // of some layers
  std::string of_span = "transformer";                                       // the stack's name there
  std::string causal = "";       // the class with the language model's head; "": PREFIXForCausalLM
  std::string turned = "$head";  // the variable that says how much of a head its positions turn
};

struct Sizes {
  std::int64_t hidden, heads, kv_heads, head, layers;
};

std::int64_t head_size(const Config& config, const Decoder& decoder, std::int64_t hidden, std::int64_t heads) {
  if (config.find("head_dim") != nullptr || decoder.head != 0) {
    const std::int64_t head = config.size("head_dim", decoder.head == 0 ? std::nullopt : std::optional(decoder.head));
    if (head % 2 != 0) throw config.wrong("head_dim", "\"head_dim\" is odd: rotary positions turn pairs");
    return head;
  }
  if (hidden % heads != 0 || hidden / heads % 2 != 0)
    throw config.wrong("num_attention_heads", "\"hidden_size\" " + std::to_string(hidden) + " cannot be divided into " +
                                                  std::to_string(heads) + " heads of an even size");
  return hidden / heads;
}

Sizes sizes_of(const Config& config, const Decoder& decoder) {
  Sizes s{};
  s.hidden = config.size("hidden_size", decoder.hidden);
  s.heads = config.size("num_attention_heads", decoder.heads);
  s.kv_heads = config.size("num_key_value_heads", decoder.kv_heads == 0 ? s.heads : decoder.kv_heads);
  s.layers = config.size("num_hidden_layers", decoder.layers);
  s.head = head_size(config, decoder, s.hidden, s.heads);
  if (s.heads % s.kv_heads != 0)
    throw config.wrong("num_key_value_heads", std::to_string(s.heads) + " heads cannot share " +
                                                  std::to_string(s.kv_heads) + " heads of keys and values evenly");
  return s;
}

std::string comment(const Config& config, const std::string& architecture, const Sizes& s) {
  std::string heads = std::to_string(s.heads) + " heads";
  if (s.kv_heads != s.heads)
    heads +=
        " that share " + std::to_string(s.kv_heads) + (s.kv_heads == 1 ? " head" : " heads") + " of keys and values";
  return architecture + " of " + config.file() + ": " + std::to_string(s.layers) + " layers of " + heads + ".\n";
}

void tie_head(const Config& config, bool tied_by_default, SpecText& spec) {
  const bool tied = config.flag("tie_word_embeddings", tied_by_default);
  const std::string untied_head = "  - lm_head: Linear(_, $vocabulary, bias=False)\n";
  const std::string tied_head =
      "  - {name: lm_head, op: \"Linear(_, $vocabulary, bias=False)\", tie: model.embed_tokens}\n";
  const bool is_tied = spec.section("layers").find(tied_head) != std::string::npos;
  if (tied != is_tied) spec.replace(is_tied ? tied_head : untied_head, tied ? tied_head : untied_head);
}

SpecText decoder_spec(const Config& config, const Decoder& decoder) {
  const std::string causal = decoder.prefix + "ForCausalLM";
  std::string architecture = config.architecture(decoder.causal.empty() ? causal : decoder.causal);
  if (architecture == decoder.causal) architecture = causal;
  std::vector<Head> heads{Head::language_model, Head::none, Head::samples, Head::tokens};
  if (decoder.finds_spans) heads.push_back(Head::span);
  const Head head = head_of(config, architecture, decoder.prefix, "ForCausalLM", heads);
  const Sizes s = sizes_of(config, decoder);
  SpecText spec = template_text(decoder.model);
  spec.set_comment(comment(config, architecture, s));
  spec.set_name(config.word("model_type", ""));
  set_tokens(spec, "seq", 2048, config.size("max_position_embeddings", decoder.positions), "max_position_embeddings");
  spec.set("vocabulary", config.size("vocab_size", decoder.vocabulary), "vocab_size");
  spec.set("hidden", s.hidden, "hidden_size");
  spec.set("inner", config.size("intermediate_size", decoder.inner), "intermediate_size");
  spec.set("layers", s.layers, "num_hidden_layers");
  spec.set("heads", s.heads, "num_attention_heads");
  spec.set("kv_heads", s.kv_heads, "num_key_value_heads");
  spec.set("head", s.head, "head_dim");
  set_rotary(config, {.theta = decoder.theta, .dimension = decoder.turned, .head = s.head}, spec);
  tie_head(config, decoder.tied, spec);
  const std::string dropout = config.share("attention_dropout", "0.0");
  if (dropout != "0.0") spec.replace("GroupedQueryAttention()", "GroupedQueryAttention(dropout=" + dropout + ")");
  if (decoder.windows != nullptr) decoder.windows(config, s.layers, spec);
  Stack stack;
  stack.block = decoder.prefix + "Model";
  stack.name = "model";
  stack.dropout = token_dropout(config);
  stack.of_span = decoder.of_span;
  set_head(config, head, stack, spec);
  return spec;
}

void set_eps(const Config& config, const Decoder& decoder, std::string_view written, SpecText& spec) {
  spec.replace(written, "LlamaRMSNorm(_, eps=" + config.positive("rms_norm_eps", decoder.eps) + ")");
}

// In `to`, false: as the template has it.
void set_attention_bias(bool bias, SpecText& spec) {
  if (!bias) return;
  spec.replace("Linear(_, ${heads*head}, bias=False)", "Linear(_, ${heads*head})");
  spec.replace("Linear(_, ${kv_heads*head}, bias=False)", "Linear(_, ${kv_heads*head})");
  spec.replace("o_proj: Linear(_, $hidden, bias=False)", "o_proj: Linear(_, $hidden)");
}

void set_activation(const Config& config, const Decoder& decoder, std::string_view written, SpecText& spec) {
  spec.replace("act_fn: " + std::string(written),
               "act_fn: " + activation_call(config, "hidden_act", decoder.activation));
}

// Of Gemma 2 and 3.
void set_gemma_words(const Config& config, const Decoder& decoder, SpecText& spec) {
  const std::string eps = config.positive("rms_norm_eps", decoder.eps);
  if (std::strtod(eps.c_str(), nullptr) != 1e-6) spec.replace("GemmaRMSNorm(_)", "GemmaRMSNorm(_, eps=" + eps + ")");
  set_attention_bias(config.flag("attention_bias", false), spec);
  spec.replace("act_fn: GELU(approximate=tanh)",
               "act_fn: " + activation_call(config, "hidden_activation", decoder.activation));
}

// modeling_gemma2.py: no SDPA kernel bounds its scores (_supports_sdpa is False), so that attention is always eager.
// null bounds nothing.
void bound_gemma2(const Config& config, SpecText& spec) {
  const std::string dropout = config.share("attention_dropout", "0.0");
  const std::string written = dropout == "0.0" ? "" : "dropout=" + dropout;
  std::string arguments = written + (written.empty() ? "" : ", ") + "eager=True";
  if (!config.has_null("attn_logit_softcapping"))
    arguments += ", softcap=" + config.positive("attn_logit_softcapping", "50.0");
  spec.replace("GroupedQueryAttention(" + written + ")", "\"GroupedQueryAttention(" + arguments + ")\"");
  spec.replace("CausalMask(packed=${packed == 1}", "CausalMask(packed=${packed == 1}, eager=True");
  const std::string head = "tie: model.embed_tokens}\n", untied = "lm_head: Linear(_, $vocabulary, bias=False)\n";
  const std::string layers = spec.section("layers");
  for (const std::string& last : {head, untied})
    if (layers.ends_with(last) && !config.has_null("final_logit_softcapping")) {
      const std::string bound = config.positive("final_logit_softcapping", "30.0");
      spec.replace(last, last + "  - Div(" + bound + ")\n  - Tanh()\n  - Scale(" + bound + ")\n");
    }
}

}  // namespace

SpecText llama_spec(const Config& config) {
  const Decoder decoder{
      .prefix = "Llama", .model = "llama2_7b", .vocabulary = 32000, .inner = 11008, .positions = 2048};
  SpecText spec = decoder_spec(config, decoder);
  set_eps(config, decoder, "LlamaRMSNorm(_, eps=1e-6)", spec);
  set_attention_bias(config.flag("attention_bias", false), spec);
  if (config.flag("mlp_bias", false)) {
    spec.replace("Linear(_, $inner, bias=False)", "Linear(_, $inner)");
    spec.replace("down_proj: Linear(_, $hidden, bias=False)", "down_proj: Linear(_, $hidden)");
  }
  set_activation(config, decoder, "SiLU()", spec);
  return spec;
}

SpecText mistral_spec(const Config& config) {
  const Decoder decoder{.prefix = "Mistral",
                        .model = "mistral_7b",
                        .vocabulary = 32000,
                        .inner = 14336,
                        .kv_heads = 8,
                        .positions = 131072,
                        .of_span = "model"};
  SpecText spec = decoder_spec(config, decoder);
  set_eps(config, decoder, "LlamaRMSNorm(_, eps=1e-5)", spec);
  set_activation(config, decoder, "SiLU()", spec);
  // null is no window, which is another thing than the key not being there.
  if (config.has_null("sliding_window")) {
    spec.replace("CausalMask(packed=${packed == 1}, sliding_window=$window)", "CausalMask(packed=${packed == 1})");
    spec.remove_variable("window");
  } else {
    spec.set("window", config.size("sliding_window", 4096), "sliding_window");
  }
  return spec;
}

SpecText mixtral_spec(const Config& config) {
  const Decoder decoder{.prefix = "Mixtral",
                        .model = "mixtral_8x7b",
                        .vocabulary = 32000,
                        .inner = 14336,
                        .kv_heads = 8,
                        .positions = 131072,
                        .eps = "1e-5",
                        .theta = "1000000.0",
                        .of_span = "model"};
  config.refuse("router_jitter_noise", "noise is then added to what the router reads");
  if (activation_call(config, "hidden_act", decoder.activation) != "SiLU()")
    throw config.wrong("hidden_act", "the experts compute with silu only");
  SpecText spec = decoder_spec(config, decoder);
  set_eps(config, decoder, "LlamaRMSNorm(_, eps=1e-5)", spec);
  const std::int64_t experts = config.size("num_local_experts", 8);
  const std::int64_t used = config.size("num_experts_per_tok", 2);
  if (used > experts)
    throw config.wrong("num_experts_per_tok",
                       "a token cannot use " + std::to_string(used) + " of " + std::to_string(experts) + " experts");
  spec.set("experts", experts, "num_local_experts");
  spec.set("top_k", used, "num_experts_per_tok");
  if (config.find("sliding_window") != nullptr) {
    spec.replace("CausalMask(packed=${packed == 1})", "CausalMask(packed=${packed == 1}, sliding_window=$window)");
    spec.set("window", config.size("sliding_window"), "sliding_window");
  }
  refuse_routers_loss(config);
  return spec;
}

SpecText qwen2_spec(const Config& config) {
  const Decoder decoder{.prefix = "Qwen2",
                        .model = "qwen2_5_7b",
                        .vocabulary = 151936,
                        .inner = 22016,
                        .kv_heads = 32,
                        .positions = 32768,
                        .windows = set_windows};
  SpecText spec = decoder_spec(config, decoder);
  set_eps(config, decoder, "LlamaRMSNorm(_, eps=1e-6)", spec);
  set_activation(config, decoder, "SiLU()", spec);
  return spec;
}

SpecText qwen3_spec(const Config& config) {
  const Decoder decoder{.prefix = "Qwen3",
                        .model = "qwen3",
                        .vocabulary = 151936,
                        .inner = 22016,
                        .kv_heads = 32,
                        .head = 128,
                        .positions = 32768,
                        .windows = set_windows};
  SpecText spec = decoder_spec(config, decoder);
  set_eps(config, decoder, "LlamaRMSNorm(_, eps=1e-6)", spec);
  set_attention_bias(config.flag("attention_bias", false), spec);
  set_activation(config, decoder, "SiLU()", spec);
  return spec;
}

SpecText gemma2_spec(const Config& config) {
  const Decoder decoder{.prefix = "Gemma2",
                        .model = "gemma2",
                        .vocabulary = 256000,
                        .hidden = 2304,
                        .inner = 9216,
                        .layers = 26,
                        .heads = 8,
                        .kv_heads = 4,
                        .head = 256,
                        .positions = 8192,
                        .activation = "gelu_pytorch_tanh",
                        .tied = true,
                        .finds_spans = false,
                        .windows = set_gemma2_windows};
  config.refuse("use_bidirectional_attention", "the mask is then another one");
  SpecText spec = decoder_spec(config, decoder);
  set_gemma_words(config, decoder, spec);
  bound_gemma2(config, spec);
  return spec;
}

SpecText gemma3_spec(const Config& config) {
  const Decoder decoder{.prefix = "Gemma3Text",
                        .model = "gemma3",
                        .vocabulary = 262208,
                        .hidden = 2304,
                        .inner = 9216,
                        .layers = 26,
                        .heads = 8,
                        .kv_heads = 4,
                        .head = 256,
                        .positions = 131072,
                        .activation = "gelu_pytorch_tanh",
                        .theta = "1000000.0",
                        .tied = true,
                        .finds_spans = false,
                        .windows = set_gemma3_windows,
                        .causal = "Gemma3ForCausalLM"};
  config.refuse("use_bidirectional_attention", "the mask is then another one");
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    config.refuse(key, "what is bounded so is computed by other operations");
  SpecText spec = decoder_spec(config, decoder);
  set_gemma_words(config, decoder, spec);
  return spec;
}

SpecText phi3_spec(const Config& config) {
  const Decoder decoder{.prefix = "Phi3",
                        .model = "phi3",
                        .vocabulary = 32064,
                        .hidden = 3072,
                        .inner = 8192,
                        .positions = 4096,
                        .eps = "1e-5",
                        .finds_spans = false,
                        .turned = "$rotary"};
  SpecText spec = decoder_spec(config, decoder);
  set_eps(config, decoder, "LlamaRMSNorm(_, eps=1e-5)", spec);
  spec.replace("activation_fn, op: SiLU()", "activation_fn, op: " + activation_call(config, "hidden_act", "silu"));
  const std::string dropout = config.share("resid_pdrop", "0.0");
  spec.replace("dropout: Dropout(0.0)", "dropout: Dropout(" + dropout + ")");
  if (config.find("sliding_window") != nullptr) {
    spec.replace("CausalMask(packed=${packed == 1})", "CausalMask(packed=${packed == 1}, sliding_window=$window)");
    spec.set("window", config.size("sliding_window"), "sliding_window");
  }
  return spec;
}

SpecText gemma_spec(const Config& config) {
  const Decoder decoder{.prefix = "Gemma",
                        .model = "gemma_2b",
                        .vocabulary = 256000,
                        .hidden = 3072,
                        .inner = 24576,
                        .layers = 28,
                        .heads = 16,
                        .kv_heads = 16,
                        .head = 256,
                        .positions = 8192,
                        .activation = "gelu_pytorch_tanh",
                        .tied = true,
                        .finds_spans = false};
  config.refuse("use_bidirectional_attention", "the mask is then another one");
  SpecText spec = decoder_spec(config, decoder);
  const std::string eps = config.positive("rms_norm_eps", decoder.eps);
  if (std::strtod(eps.c_str(), nullptr) != 1e-6) spec.replace("GemmaRMSNorm(_)", "GemmaRMSNorm(_, eps=" + eps + ")");
  set_attention_bias(config.flag("attention_bias", false), spec);
  // GemmaConfig takes "gelu", which the published files have, for the approximation by tanh.
  if (config.word("hidden_act", "gelu") != "gelu") set_activation(config, decoder, "GELU(approximate=tanh)", spec);
  return spec;
}

}  // namespace gpuplan
