// config.json of transformers, read into specs. tests/huggingface has those of published models and what PyTorch counts
// of the models that transformers builds of them.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "estimator/plan/plan.h"
#include "estimator/spec/canonical.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/importers/hugging_face.h"
#include "tools/importers/import.h"
#include "tools/process/read_source.h"

using namespace gpuplan;

namespace {

const std::string kFolder = std::string(GPUPLAN_SOURCE_DIR) + "/tests/huggingface/";

struct Counted {
  std::string model;
  std::int64_t parameters = 0, trained = 0, buffers = 0;
};

std::vector<Counted> counted() {
  std::vector<Counted> list;
  std::ifstream in(kFolder + "parameters.tsv");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("#") || line.starts_with("model\t")) continue;
    std::istringstream columns(line);
    Counted c;
    std::string type;
    columns >> c.model >> type >> c.parameters >> c.trained >> c.buffers;
    list.push_back(c);
  }
  return list;
}

Report inferred(const Model& model) {
  RunConfig run;
  run.mode = Mode::infer;
  run.optimizer.kind = OptimizerKind::none;
  return plan(model, make_catalog(), run);
}

std::shared_ptr<const Source> imported(const std::string& model) {
  return hugging_face_spec(*read_file_source(kFolder + model + ".json"));
}

Error refusal(const std::string& text) {
  try {
    (void)hugging_face_spec({"config.json", text});
  } catch (const Error& error) {
    return error;
  }
  return Error("nothing was refused");
}

}  // namespace

TEST_CASE("imported models have PyTorch's number of parameters") {
  const std::vector<Counted> models = counted();
  CHECK_GE(models.size(), 69);
  for (const Counted& c : models) {
    CAPTURE(c.model);
    const Report report = inferred(read_model(imported(c.model)));
    CHECK_EQ(report.model.parameters, c.parameters);
    CHECK_EQ(report.model.trainable_parameters, c.trained);
    CHECK_EQ(report.model.buffers, c.buffers);
  }
}

// published.tsv: 59 models, of all families but BART, CLIP and SigLIP, whose papers give no number. The reports of
// Gemma and Gemma 2 give units, which hold.
TEST_CASE("imported models have about the number of parameters that is published") {
  std::map<std::string, std::int64_t> counts;
  for (const Counted& c : counted()) counts[c.model] = c.parameters;
  std::ifstream in(kFolder + "published.tsv");
  std::string line;
  int models = 0;
  while (std::getline(in, line)) {
    if (line.starts_with("#") || line.starts_with("model\t")) continue;
    std::istringstream columns(line);
    std::string model;
    double published = 0, less = 0;
    columns >> model >> published >> less;
    CAPTURE(model);
    REQUIRE_EQ(counts.count(model), 1);
    const double error = (static_cast<double>(counts[model]) - less) / published - 1;
    CHECK_LT(std::abs(error), model.starts_with("gemma-2") || model == "gemma-7b" ? 1e-12 : 0.05);
    ++models;
  }
  CHECK_EQ(models, 59);
}

TEST_CASE("every configuration of tests/huggingface is counted") {
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) files += file.path().extension() == ".json";
  CHECK_EQ(counted().size(), files);
}

// What imports as the zoo has it plans to the recorded bytes of the zoo's model.
TEST_CASE("imports of models that the zoo has are the zoo's") {
  struct Pair {
    const char *config, *zoo;
    std::vector<Variable> set;
  };
  const Pair pairs[] = {{"gpt2", "gpt2", {}},
                        {"gpt2-medium", "gpt2_medium", {}},
                        {"llama-3-8b", "llama3_8b", {{"seq", 2048}}},
                        {"llama-3-70b", "llama3_70b", {{"seq", 2048}}},
                        {"tinyllama-1.1b", "tinyllama_1b", {}},
                        {"mistral-7b-v0.1", "mistral_7b", {}},
                        {"mixtral-8x7b", "mixtral_8x7b", {}},
                        {"qwen2-0.5b", "qwen2_0_5b", {{"seq", 2048}}},
                        {"qwen2-7b", "qwen2_5_7b", {}},
                        {"gemma-2b", "gemma_2b", {{"seq", 2048}}},
                        {"opt-125m", "opt_125m", {}},
                        {"t5-small", "t5_small", {}},
                        {"vit-base-patch16-224", "vit_base", {}},
                        {"roberta-large-mnli", "roberta_large", {{"labels", 3}}},
                        {"bert-base-uncased-sst2", "bert_base", {}},
                        {"distilbert-base-uncased-finetuned-sst-2-english", "distilbert", {}}};
  RunConfig run;
  run.batch = 2;
  for (const Pair& pair : pairs) {
    CAPTURE(pair.config);
    SpecOptions options;
    options.set = pair.set;
    options.open = [](std::string_view name, std::string_view) {
      return read_zoo_source(name.substr(0, name.find('.')));
    };
    const Report ours = plan(read_model(imported(pair.config)), make_catalog(), run);
    // What is imported is tied before it is on the GPU, the zoo's models are made there.
    const auto tied = std::make_shared<Source>(*read_zoo_source(pair.zoo));
    tied->text += "construction: []\n";
    const Report zoo = plan(read_model(tied, options), make_catalog(), run);
    CHECK_EQ(ours.peak.reading.requested_bytes, zoo.peak.reading.requested_bytes);
    CHECK_EQ(ours.peak.reading.allocated_bytes, zoo.peak.reading.allocated_bytes);
    CHECK_EQ(ours.peak.reading.reserved_bytes, zoo.peak.reading.reserved_bytes);
    CHECK_EQ(ours.compute.step_flops, zoo.compute.step_flops);
    CHECK_EQ(ours.model.buffers, zoo.model.buffers);
  }
}

TEST_CASE("an import that was written and read again is the same model") {
  for (const Counted& c : counted()) {
    CAPTURE(c.model);
    const std::shared_ptr<const Source> spec = imported(c.model);
    CHECK_EQ(spec->name, "import:" + kFolder + c.model + ".json");
    CHECK_EQ(recognise(spec->text, "model.yaml"), FileKind::spec);
    const std::string canonical = canonical_yaml(read_model(spec));
    const auto written = std::make_shared<const Source>(Source{"model.yaml", spec->text});
    CHECK_EQ(canonical_yaml(read_model(written)), canonical);
    const auto expanded = std::make_shared<const Source>(Source{"canonical.yaml", canonical});
    CHECK_EQ(canonical_yaml(read_model(expanded)), canonical);
  }
}

TEST_CASE("a mistake in a config.json is answered with its place") {
  struct Case {
    const char *text, *message;
    int line, column;
  };
  constexpr Case kCases[] = {
      {"", "this is not JSON: expected a value, and the file ends", 1, 1},
      {"{\n  \"model_type\": \"gpt2\",\n}", "this is not JSON: expected a key in double quotes, found '}'", 3, 1},
      {"{\"model_type\": \"gpt2\", \"model_type\": 1}", "the key \"model_type\" appears twice", 1, 24},
      {"[1]", "a config.json holds an object, not a list", 1, 1},
      {"{\"architectures\": []}", "\"model_type\" is missing", 1, 1},
      {"{\n \"model_type\": \"lama\"}", "unknown family \"lama\" — did you mean \"llama\"?", 2, 16},
      {"{\"model_type\": 3}", "\"model_type\" is a string, not a number", 1, 16},
      {"{\"model_type\": \"gpt2\",\n \"n_layer\": \"12\"}", "\"n_layer\" is a number, not a string", 2, 13},
      {"{\"model_type\": \"gpt2\",\n \"n_layer\": 0}", "\"n_layer\" is out of range", 2, 13},
      {"{\"model_type\": \"gpt2\",\n \"n_layer\": 1.5}", "\"n_layer\" must be a whole number, not 1.5", 2, 13},
      {"{\"model_type\": \"gpt2\",\n \"n_layer\": 99999999999999999999}", "\"n_layer\" is out of range", 2, 13},
      {"{\"model_type\": \"gpt2\",\n \"n_head\": 7}", "\"n_embd\" 768 cannot be divided into 7 heads", 2, 12},
      {"{\"model_type\": \"gpt2\",\n \"attn_pdrop\": 1}", "\"attn_pdrop\" is out of range", 2, 16},
      {"{\"model_type\": \"gpt2\",\n \"layer_norm_epsilon\": NaN}", "\"layer_norm_epsilon\" is out of range", 2, 24},
      {"{\"model_type\": \"gpt2\", \"activation_function\": \"gelu_fast\"}",
       "the activation \"gelu_fast\" is not modelled", 1, 47},
      {"{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2DoubleHeadsModel\"]}",
       "the class GPT2DoubleHeadsModel is not modelled", 1, 41},
      {"{\"model_type\": \"gemma\", \"architectures\": [\"GemmaForQuestionAnswering\"]}",
       "the class GemmaForQuestionAnswering is not modelled", 1, 42},
      {"{\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"dynamic\"}}}",
       "positions that depend on the batch are not modelled for individual layer types", 1, 69},
      {"{\"model_type\": \"gemma3_text\", \"final_logit_softcapping\": 30.0}",
       "\"final_logit_softcapping\" is not modelled: what is bounded so is computed by other operations", 1, 58},
      {"{\"model_type\": \"gemma2\", \"sliding_window\": null}", "\"sliding_window\" is null", 1, 44},
      {"{\"model_type\": \"llama4\"}", "the family \"llama4\" is not modelled: its layers are not those of llama", 1,
       16},
      {"{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2ForSequenceClassification\"], \"problem_type\": \"rank\"}",
       "unknown problem \"rank\"", 1, 92},
      {"{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2ForSequenceClassification\"], \"num_labels\": 1, "
       "\"problem_type\": \"single_label_classification\"}",
       "single-label classification needs at least two labels", 1, 109},
      {"{\"model_type\": \"bert\", \"architectures\": [\"BertForQuestionAnswering\"], \"num_labels\": 3}",
       "a model that finds spans takes two labels only", 1, 85},
      {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}",
       "32 heads cannot share 5 heads of keys and values evenly", 1, 48},
      {"{\"model_type\": \"llama\", \"quantization_config\": {\"bits\": 4}}",
       "unnamed 4-bit weights are not supported yet", 1, 48},
      {"{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"bitsandbytes\", "
       "\"load_in_8bit\": true}}",
       "bitsandbytes 8-bit weights are not supported yet", 1, 48},
      {"{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4}}",
       "awq 4-bit weights are not supported yet", 1, 48},
      {"{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": \"fp8\"}}",
       "fp8 weights are not supported yet", 1, 48},
      {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"xpos\"}}",
       "positions of the type \"xpos\" are not modelled", 1, 50},
      {"{\"model_type\": \"t5\", \"feed_forward_proj\": \"gated-silu\"}",
       "feed forward layers of the kind \"gated-silu\" are not modelled", 1, 43},
      {"{\"model_type\": \"qwen3\", \"layer_types\": [\"sliding_attention\"]}",
       "\"layer_types\" is a list of 32 words, one for each of num_hidden_layers", 1, 40},
      {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
       "a layer has a window, and the model has none", 1, 65},
      {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 1, \"layer_types\": [\"chunked_attention\"]}",
       "layers of the type \"chunked_attention\" are not modelled", 1, 65},
      {"{\"model_type\": \"qwen3_moe\", \"hidden_act\": \"relu\"}", "\"hidden_act\" is not modelled other than silu", 1,
       43},
      {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [1]}", "\"mlp_only_layers\" is not modelled other than []",
       1, 48},
      {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 0}", "\"num_experts\" is out of range", 1, 44},
      {"{\"model_type\": \"qwen3_moe\", \"num_attention_heads\": 7}",
       "\"head_dim\" is missing, and 2048 cannot be divided by 7", 1, 1},
      {"{\"model_type\": \"qwen3_moe\", \"rope_scaling\": {\"type\": \"dynamic\"}}",
       "positions that depend on the batch are not modelled for this family", 1, 45},
      {"{\"model_type\": \"gpt_neox\", \"hidden_act\": \"mish\"}", "\"hidden_act\" is not modelled as mish", 1, 42},
      {"{\"model_type\": \"gpt_oss\", \"layer_types\": [\"full_attention\"]}",
       "\"layer_types\" is a list of 36 words, one for each of num_hidden_layers", 1, 42},
      {"{\"model_type\": \"gpt_oss\", \"architectures\": [\"GptOssForSequenceClassification\"]}",
       "the class GptOssForSequenceClassification is not modelled", 1, 44},
      {"{\"model_type\": \"qwen3_moe\", \"tie_word_embeddings\": \"true\"}",
       "\"tie_word_embeddings\" is a boolean, not a string", 1, 52},
      {"{\"model_type\": \"modernbert\", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
       "a first layer with a window is not modelled", 1, 69},
      {"{\"model_type\": \"llama4_text\", \"no_rope_layers\": [1]}",
       "\"no_rope_layers\" is a list of 48 numbers, one for each of num_hidden_layers", 1, 49},
      {"{\"model_type\": \"llama4_text\", \"moe_layers\": [1, -2]}", "\"moe_layers\" is a list of whole numbers", 1,
       45},
      {"{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 1, \"layer_types\": [\"full_attention\"]}",
       "\"layer_types\" is not modelled other than chunked_attention where a layer has rotary positions", 1, 70},
      {"{\"model_type\": \"clip\", \"text_config\": 3}", "\"text_config\" must be an object, not a number", 1, 39},
      {"{\"model_type\": \"clip\", \"text_config\": {\"hidden_size\": \"512\"}}",
       "\"text_config.hidden_size\" is a number, not a string", 1, 55},
  };
  for (const Case& c : kCases) {
    CAPTURE(std::string(c.text));
    const Error error = refusal(c.text);
    CHECK_EQ(error.message().substr(0, std::string_view(c.message).size()), c.message);
    CHECK_EQ(error.line(), c.line);
    CHECK_EQ(error.column(), c.column);
  }
}

TEST_CASE("an unknown family names the known ones") {
  CHECK_NE(
      refusal(R"({"model_type": "mamba"})").render().find("bart, bert, clip, deepseek_v3, distilbert, gemma, gemma2"),
      std::string::npos);
}

TEST_CASE("keys that are not there have the family's defaults") {
  // LlamaConfig() is Llama 7B, GPT2Config() GPT-2 small, ViTConfig() ViT base with two labels.
  const auto parameters = [](const std::string& text) {
    return inferred(read_model(hugging_face_spec({"config.json", text}))).model.parameters;
  };
  CHECK_EQ(parameters(R"({"model_type": "llama"})"), 6'738'415'616);
  CHECK_EQ(parameters(R"({"model_type": "gpt2", "n_inner": null})"), 124'439'808);
  CHECK_EQ(parameters(R"({"model_type": "vit"})"), 85'800'194);
}

TEST_CASE("layers with a window are those of the model with a head") {
  const auto spec = [](const std::string& architecture) {
    return inferred(read_model(hugging_face_spec(
        {"config.json", R"({"model_type": "qwen3", "architectures": [")" + architecture +
                            R"("], "num_hidden_layers": 3, "use_sliding_window": true, "sliding_window": 32,
                            "layer_types": ["full_attention", "sliding_attention", "full_attention"]})"})));
  };
  // The head of 151,936 words of 4,096 numbers is what the bare model does not have.
  CHECK_EQ(spec("Qwen3ForCausalLM").model.parameters - spec("Qwen3Model").model.parameters, 151'936 * 4'096);
}

TEST_CASE("what a configuration says of types and attention stands in the comment") {
  const std::string text = hugging_face_spec({"c.json", R"({"model_type": "llama", "torch_dtype": "bfloat16",
                                       "_attn_implementation": "eager", "attention_dropout": 0.1})"})
                               ->text;
  for (const char* words : {"--precision bf16", "--attention eager", "GroupedQueryAttention(dropout=0.1)"})
    CHECK_NE(text.find(words), std::string::npos);
}
