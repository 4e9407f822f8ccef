#include "tools/importers/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tools/importers/families.h"
#include "tools/importers/family_template.h"
#include "tools/importers/import.h"

namespace gpuplan {

namespace {

struct Family {
  std::string_view model_type;
  SpecText (*spec)(const Config&);
};

constexpr Family kFamilies[] = {
    {"bert", bert_spec},
    {"distilbert", distilbert_spec},
    {"gemma", gemma_spec},
    {"gemma2", gemma2_spec},
    {"gemma3_text", gemma3_spec},
    {"gpt2", gpt2_spec},
    {"llama", llama_spec},
    {"mistral", mistral_spec},
    {"mixtral", mixtral_spec},
    {"opt", opt_spec},
    {"phi", phi_spec},
    {"phi3", phi3_spec},
    {"qwen2", qwen2_spec},
    {"qwen3", qwen3_spec},
    {"roberta", roberta_spec},
    {"t5", t5_spec},
    {"vit", vit_spec},
    {"whisper", whisper_spec},
};

std::vector<std::string> known_families() {
  std::vector<std::string> names = families_with_template();
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

SpecText spec_of_family(const Config& config) {
  const std::vector<std::string> names = known_families();
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  if (config.find("model_type") == nullptr)
    throw config.wrong("model_type", "\"model_type\" is missing").help("the families that are known: " + known);
  const std::string type = config.word("model_type", "");
  for (const Family& family : kFamilies)
    if (family.model_type == type) return family.spec(config);
  if (std::optional<SpecText> spec = spec_of_template(config, type)) return *std::move(spec);
  // A later generation of a family has the older one's name in its own, and other layers.
  for (const std::string& name : names)
    if (type.starts_with(name))
      throw config
          .wrong("model_type", "the family \"" + type + "\" is not modelled: its layers are not those of " + name)
          .help("known families: " + known + "; transformers plans others: gpuplan hf:FOLDER");
  throw config.wrong("model_type", "unknown family \"" + type + "\"" + did_you_mean(type, names))
      .help("known families: " + known + "; transformers plans others: gpuplan hf:FOLDER");
}

// "gptq in 4 bits"
std::string quantization_of(const JsonValue& quantization) {
  const auto text = [&](std::string_view key) {
    const JsonValue* const value = quantization.find(key);
    return value == nullptr || value->kind == JsonValue::Kind::null ? std::string() : value->text;
  };
  const auto is_set = [&](std::string_view key) {
    const JsonValue* const value = quantization.find(key);
    return value != nullptr && value->kind == JsonValue::Kind::boolean && value->boolean;
  };
  std::string method = text("quant_method").empty() ? "unnamed" : text("quant_method");
  if (is_set("load_in_4bit") || is_set("_load_in_4bit")) return method + " 4-bit";
  if (is_set("load_in_8bit") || is_set("_load_in_8bit")) return method + " 8-bit";
  for (const char* bits : {"bits", "w_bit", "nbits"})
    if (!text(bits).empty()) return method + " " + text(bits) + "-bit";
  return method;
}

// What is computed with such weights depends on kernels outside of PyTorch.
void refuse_quantization(const Config& config) {
  const JsonValue* const quantization = config.find("quantization_config");
  if (quantization == nullptr) return;
  if (quantization->kind != JsonValue::Kind::object)
    throw config.wrong("quantization_config",
                       "\"quantization_config\" must be an object, not " + std::string(describe(quantization->kind)));
  if (quantization->members.empty()) return;
  throw config.wrong("quantization_config", quantization_of(*quantization) + " weights are not supported yet")
      .help(
          "without this key the model is planned unquantized; --weights nf4|fp4|int8 plans bitsandbytes' weights, with "
          "--lora or --mode infer; with PyTorch, gpuplan hf:FOLDER plans bitsandbytes' and torchao's");
}

// What no family has.
void refuse_everywhere(const Config& config) {
  config.refuse("pruned_heads", "the layers then differ in size");
  config.refuse("chunk_size_feed_forward", "a layer's tokens are then computed in parts");
  config.refuse("position_embedding_type", "only absolute positions are", "absolute");
  config.refuse("add_cross_attention", "the model then reads the states of another one");
}

const char* type_key(const Config& config) { return config.find("dtype") != nullptr ? "dtype" : "torch_dtype"; }

std::string half_precision(const Config& config) {
  const std::string type = config.word(type_key(config), "");
  return type == "bfloat16" || type == "float16" ? type : "";
}

std::string type_comment(const Config& config) {
  const std::string type = half_precision(config);
  if (type.empty()) return "";
  const std::string word = type == "float16" ? "fp16" : "bf16";
  return std::string(type_key(config)) + " is " + type + ": --precision " + word +
         " plans weights of that type, --amp " + word + " fp32 weights and autocast.\n";
}

std::string attention_comment(const Config& config) {
  const std::string word = config.word("_attn_implementation", config.word("attn_implementation", ""));
  if (word == "eager") return "_attn_implementation is eager: plan it with --attention eager.\n";
  if (word == "flash_attention_2") return "_attn_implementation is flash_attention_2, SDPA's is planned.\n";
  return "";
}

}  // namespace

std::string activation_call(const Config& config, std::string_view key, std::string_view otherwise) {
  struct Activation {
    std::string_view word, call;
  };
  // transformers/activations.py, ACT2FN. Others run several operations of their own.
  constexpr Activation kActivations[] = {
      {"gelu", "GELU()"}, {"gelu_new", "NewGELU()"}, {"gelu_pytorch_tanh", "GELU(approximate=tanh)"},
      {"relu", "ReLU()"}, {"silu", "SiLU()"},        {"swish", "SiLU()"},
      {"tanh", "Tanh()"}, {"sigmoid", "Sigmoid()"},
  };
  const std::string word = config.word(key, otherwise);
  std::vector<std::string> words;
  for (const Activation& activation : kActivations) {
    if (activation.word == word) return std::string(activation.call);
    words.emplace_back(activation.word);
  }
  std::string known;
  for (const std::string& w : words) known += (known.empty() ? "" : ", ") + w;
  throw config.wrong(key, "the activation \"" + word + "\" is not modelled" + did_you_mean(word, words))
      .help("known are: " + known);
}

void expect_architecture(const Config& config, const std::string& architecture, const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& name : known) {
    if (name == architecture) return;
    list += (list.empty() ? "" : ", ") + name;
  }
  throw config
      .wrong("architectures", "the class " + architecture + " is not modelled" + did_you_mean(architecture, known))
      .help("the classes of this family that are: " + list + "; transformers plans others: gpuplan hf:FOLDER");
}

void refuse_routers_loss(const Config& config) {
  if (config.flag("output_router_logits", false))
    throw config.wrong("output_router_logits", "the router's own loss is not modelled")
        .help("with --like 'pytorch()' the model's own code is run, with that loss; without the key there is none");
}

StackSizes sizes_of(const Config& config, const StackKeys& keys, const StackSizes& otherwise) {
  const StackSizes s{config.size(keys.hidden, otherwise.hidden), config.size(keys.heads, otherwise.heads),
                     config.size(keys.layers, otherwise.layers)};
  if (s.hidden % s.heads != 0)
    throw config.wrong(keys.heads, "\"" + std::string(keys.hidden) + "\" " + std::to_string(s.hidden) +
                                       " cannot be divided into " + std::to_string(s.heads) + " heads");
  return s;
}

std::string stack_comment(const Config& config, const std::string& architecture, const StackSizes& sizes) {
  return architecture + " of " + config.file() + ": " + std::to_string(sizes.layers) + " layers of " +
         std::to_string(sizes.heads) + " heads.\n";
}

std::string inverse_root(std::int64_t n) {
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, 1 / std::sqrt(static_cast<double>(n)));
    if (std::strtod(text, nullptr) == 1 / std::sqrt(static_cast<double>(n))) break;
  }
  return text;
}

void set_tokens(SpecText& spec, std::string_view variable, std::int64_t usual, std::int64_t positions,
                std::string_view key) {
  const std::string most = std::to_string(positions) + " (" + std::string(key) + ")";
  spec.set(variable, std::min(usual, positions), "tokens of a sample, at most " + most);
  if (variable == "seq") spec.set("positions", positions, std::string(key));
}

std::shared_ptr<const Source> hugging_face_spec(const Source& source, Quantized quantized) {
  const Config config(source);
  if (quantized == Quantized::refused) refuse_quantization(config);
  refuse_everywhere(config);
  SpecText spec = spec_of_family(config);
  // transformers ties weights on the CPU, or on meta, before the model is on the GPU.
  if (spec.section("construction").empty()) spec.set_section("construction", "construction: []\n");
  spec.add_comment(type_comment(config) + attention_comment(config));
  return std::make_shared<const Source>(Source{import_name(source.name), spec.text()});
}

std::string quantization_of(const Source& source) {
  const Config config(source);
  const JsonValue* const quantization = config.find("quantization_config");
  const bool some =
      quantization != nullptr && quantization->kind == JsonValue::Kind::object && !quantization->members.empty();
  return some ? quantization_of(*quantization) : std::string();
}

std::string half_precision_of(const Source& config) { return half_precision(Config(config)); }

}  // namespace gpuplan
