// Every key of every kind of config.json with values of every type: each is a model or an Error. What
// exchanges a part of a template and does not find it there is a bug, which only such a value shows.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "estimator/spec/read.h"
#include "tools/importers/hugging_face.h"
#include "tools/process/read_source.h"

using namespace gpuplan;
using Json = nlohmann::ordered_json;

namespace {

struct Family {
  Json config;  // of one model
  std::set<std::string> keys;
};

std::map<std::string, Family> families() {
  std::set<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(std::string(GPUPLAN_SOURCE_DIR) + "/tests/huggingface"))
    if (file.path().extension() == ".json") files.insert(file.path());
  std::map<std::string, Family> list;
  for (const std::filesystem::path& file : files) {
    const Json config = Json::parse(read_file_source(file.string())->text);
    Family& family = list[config["model_type"].get<std::string>()];
    family.config = config;
    for (const auto& [key, value] : config.items()) family.keys.insert(key);
  }
  return list;
}

const std::vector<Json>& values() {
  static const std::vector<Json> list = {nullptr,
                                         true,
                                         false,
                                         0,
                                         1,
                                         -1,
                                         3,
                                         0.1,
                                         1e300,
                                         2147483647,
                                         INT64_MAX,
                                         "",
                                         "relu",
                                         Json::array(),
                                         {1, "x"},
                                         Json::object(),
                                         {{"type", "linear"}, {"factor", 2.0}}};
  return list;
}

// "" where it is read, or refused; what went wrong otherwise. A spec that was read before is not again.
std::string problem_of(const Json& config, std::set<std::string>& read) {
  try {
    const std::shared_ptr<const Source> spec = hugging_face_spec({"config.json", config.dump()});
    if (read.insert(spec->text).second) (void)read_model(spec);
  } catch (const Error&) {
    return "";
  } catch (const std::exception& bug) {
    return bug.what();
  }
  return "";
}

}  // namespace

TEST_CASE("no value of any key of a config.json is more than an error") {
  const std::map<std::string, Family> all = families();
  CHECK_GE(all.size(), 18);
  for (const auto& entry : all) {
    const std::string& name = entry.first;
    const Family& family = entry.second;
    std::set<std::string> read;
    for (const std::string& key : family.keys)
      for (const Json& value : values()) {
        Json config = family.config;
        config[key] = value;
        const std::string problem = problem_of(config, read);
        CHECK_MESSAGE(problem.empty(), name, " with ", key, " = ", value.dump(), ": ", problem);
      }
  }
}

// WhisperAttention hands config.attention_dropout to all three of its uses (transformers/models/whisper).
TEST_CASE("Whisper's attention drops weights as its configuration says") {
  const std::string text =
      hugging_face_spec({"config.json", R"({"model_type": "whisper", "attention_dropout": 0.1})"})->text;
  CHECK(text.find("HuggingFaceAttention(dropout=0.1, causal=$causal)") != std::string::npos);
}

// MixtralForCausalLM, Qwen3MoeForCausalLM and GptOssForCausalLM add load_balancing_loss_func() to the loss.
TEST_CASE("a router's own loss is refused in every family of experts") {
  for (const char* family : {"mixtral", "qwen3_moe", "gpt_oss"})
    CHECK_THROWS_WITH_AS(hugging_face_spec({"config.json", R"({"model_type": ")" + std::string(family) +
                                                               R"(", "output_router_logits": true})"}),
                         "the router's own loss is not modelled", Error);
}
