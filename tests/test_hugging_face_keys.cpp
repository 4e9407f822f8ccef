// Every key of every kind of config.json with values of every type: each is a model, or an Error with its place. What
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
#include "tools/read_source.h"

using namespace gpuplan;
using Json = nlohmann::ordered_json;

namespace {

// One configuration of each class of each family.
std::vector<Json> configurations() {
  std::map<std::string, Json> by_class;
  for (const auto& file : std::filesystem::directory_iterator(std::string(GPUPLAN_SOURCE_DIR) + "/tests/huggingface")) {
    if (file.path().extension() != ".json") continue;
    Json config = Json::parse(read_file_source(file.path().string())->text);
    const std::string name = config["model_type"].get<std::string>() + config.value("architectures", Json()).dump();
    by_class.emplace(name, std::move(config));
  }
  std::vector<Json> list;
  for (auto& [name, config] : by_class) list.push_back(std::move(config));
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

// "" where it is read, or else refused with its place; what went wrong otherwise.
std::string problem_of(const Json& config) {
  try {
    (void)read_model(hugging_face_spec({"config.json", config.dump()}));
  } catch (const Error& error) {
    return error.line() > 0 || !error.message().empty() ? "" : "an error without words";
  } catch (const std::exception& bug) {
    return bug.what();
  }
  return "";
}

}  // namespace

TEST_CASE("no value of any key of a config.json is more than an error") {
  const std::vector<Json> all = configurations();
  CHECK_GE(all.size(), 18);  // families
  std::set<std::string> keys;
  for (const Json& config : all)
    for (const auto& [key, value] : config.items()) keys.insert(key);
  for (const Json& config : all)
    for (const std::string& key : keys)
      for (const Json& value : values()) {
        Json other = config;
        other[key] = value;
        const std::string problem = problem_of(other);
        CHECK_MESSAGE(problem.empty(), config["model_type"], " with ", key, " = ", value.dump(), ": ", problem);
      }
}

// WhisperAttention hands config.attention_dropout to all three of its uses (transformers/models/whisper).
TEST_CASE("Whisper's attention drops weights as its configuration says") {
  const std::string text =
      hugging_face_spec({"config.json", R"({"model_type": "whisper", "attention_dropout": 0.1})"})->text;
  CHECK(text.find("HuggingFaceAttention(dropout=0.1, causal=$causal)") != std::string::npos);
}
