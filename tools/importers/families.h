// One function for each family of transformers' models: from a config.json to the text of a spec, made of the zoo's
// model of the family with other sizes. Defaults are those of the family's configuration class in transformers 5. Each
// throws Error for what the spec cannot say.
#pragma once

#include "tools/importers/config.h"
#include "tools/importers/spec_text.h"

namespace gpuplan {

SpecText gpt2_spec(const Config& config);
SpecText bert_spec(const Config& config);
SpecText roberta_spec(const Config& config);
SpecText distilbert_spec(const Config& config);
SpecText llama_spec(const Config& config);
SpecText mistral_spec(const Config& config);
SpecText mixtral_spec(const Config& config);
SpecText qwen2_spec(const Config& config);
SpecText qwen3_spec(const Config& config);
SpecText gemma_spec(const Config& config);
SpecText gemma2_spec(const Config& config);
SpecText gemma3_spec(const Config& config);
SpecText phi_spec(const Config& config);
SpecText phi3_spec(const Config& config);
SpecText opt_spec(const Config& config);
SpecText t5_spec(const Config& config);
SpecText vit_spec(const Config& config);
SpecText whisper_spec(const Config& config);

/// A stack of layers whose states are divided into heads evenly.
struct StackSizes {
  std::int64_t hidden, heads, layers;
  std::int64_t head() const { return hidden / heads; }
};
/// What a family calls them.
struct StackKeys {
  std::string_view hidden = "hidden_size", heads = "num_attention_heads", layers = "num_hidden_layers";
};
/// Throws Error where the states cannot be divided so.
StackSizes sizes_of(const Config& config, const StackKeys& keys, const StackSizes& otherwise);
/// "GPT2LMHeadModel of config.json: 12 layers of 12 heads.", as a spec begins.
std::string stack_comment(const Config& config, const std::string& architecture, const StackSizes& sizes);

/// The layer that transformers' ACT2FN makes of the word at `key`: "GELU()". Throws Error for one that is not modelled.
std::string activation_call(const Config& config, std::string_view key, std::string_view otherwise);
/// Throws Error where `architecture` is none of `known`.
void expect_architecture(const Config& config, const std::string& architecture, const std::vector<std::string>& known);
/// Throws Error where the router of a mixture of experts has a loss of its own.
void refuse_routers_loss(const Config& config);
/// 1 / sqrt(n), with as many digits as it takes.
std::string inverse_root(std::int64_t n);

/// Rotary positions of a family: the defaults of its configuration class, and what the template says of them.
struct Rotary {
  std::string theta = "10000.0";    // as written
  std::string part = "1.0";         // of a head's numbers that are turned
  std::string dimension = "$head";  // the variable that LlamaRotaryEmbedding is given
  std::int64_t head = 0;
};
/// Puts theta, and the variable `rotary` where a part of a head is turned, into the spec. Throws Error for kinds of
/// scaling that run other operations.
void set_rotary(const Config& config, const Rotary& otherwise, SpecText& spec);
/// Theta as it is written. Throws Error for frequencies that depend on the batch.
std::string rotary_base(const Config& config, const std::string& otherwise);

/// The template's default length where the model has as many positions, or all of its positions.
void set_tokens(SpecText& spec, std::string_view variable, std::int64_t usual, std::int64_t positions,
                std::string_view key);

}  // namespace gpuplan
