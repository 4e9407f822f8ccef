// Recordings of whole steps on a GPU, beside the plan of the same step.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/scoreboard/scoreboard.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json load(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("there is no " + path.string());
  try {
    return json::parse(in);
  } catch (const json::exception& e) {
    throw std::runtime_error(path.string() + ": " + e.what());
  }
}

// "2.15.0+cu132" -> 215.
int pytorch_of(const std::string& version) {
  const std::size_t dot = version.find('.');
  return 100 * std::stoi(version) + std::stoi(version.substr(dot + 1));
}

// "adamw_fused": the optimizer, and how it is implemented.
OptimizerConfig optimizer_of(std::string name) {
  OptimizerConfig c;
  const auto ends = [&](const std::string& suffix) {
    if (!name.ends_with(suffix)) return false;
    name.resize(name.size() - suffix.size());
    return true;
  };
  if (ends("_fused")) c.impl = OptimizerImpl::fused;
  if (ends("_forloop")) c.impl = OptimizerImpl::for_loop;
  c.momentum = ends("_momentum");
  static const std::map<std::string, OptimizerKind> kinds = {
      {"sgd", OptimizerKind::sgd},         {"adam", OptimizerKind::adam},       {"adamw", OptimizerKind::adamw},
      {"rmsprop", OptimizerKind::rmsprop}, {"adagrad", OptimizerKind::adagrad}, {"adadelta", OptimizerKind::adadelta},
      {"nadam", OptimizerKind::nadam},     {"radam", OptimizerKind::radam},     {"adamax", OptimizerKind::adamax}};
  c.kind = kinds.at(name);
  return c;
}

// "default" is fp32 with TF32 in convolutions, PyTorch's own choice, and "fp32" fp32 throughout.
void set_precision(RunConfig& run, const std::string& word) {
  run.tf32 = word == "tf32";
  if (word == "fp16" || word == "bf16") run.precision = *dtype_from_name(word);
  if (word.starts_with("amp_")) run.autocast = dtype_from_name(word.substr(4));
}

RunConfig config_of(const json& recorded, const json& environment) {
  RunConfig run;
  run.batch = recorded.at("batch");
  run.pytorch = pytorch_of(environment.at("torch"));
  run.alloc_conf = environment.value("PYTORCH_CUDA_ALLOC_CONF", "");
  run.optimizer = optimizer_of(recorded.at("optimizer"));
  set_precision(run, recorded.at("precision"));
  if (recorded.value("layout", "nchw") == "nhwc") run.layout = MemoryFormat::channels_last;
  const std::string loop = recorded.value("loop", "loss_only");
  run.loop = loop == "plain" ? Loop::plain : loop == "function" ? Loop::function : Loop::loss_only;
  run.micro_batches = recorded.value("micro_batches", 1);
  if (recorded.value("checkpoint", "none") == "block") run.checkpoint.kind = CheckpointConfig::Kind::block;
  return run;
}

std::int64_t highest(const Report& r, std::initializer_list<Phase> phases) {
  std::int64_t bytes = 0;
  for (const PhaseRow& row : r.phases)
    if (row.steady && std::ranges::find(phases, row.phase) != phases.end())
      bytes = std::max(bytes, row.peak.allocated_bytes);
  return bytes;
}

std::string name_of_run(const json& recorded) {
  std::string run = recorded.at("model").get<std::string>() + " b" + std::to_string(recorded.at("batch").get<int>());
  for (const char* key : {"precision", "optimizer", "layout", "loop"}) run += "." + recorded.value(key, "");
  return run;
}

void score(std::vector<ScoreRow>& rows, const json& recorded, const Report& r, const std::string& suite) {
  const std::string run = name_of_run(recorded);
  const auto add = [&](const std::string& quantity, const json& expected, std::int64_t got) {
    rows.push_back({suite, run, quantity, expected.get<std::int64_t>(), got});
  };
  const json& steady = recorded.at("steady");
  add("parameter_elements", recorded.at("params"), r.model.parameters);
  add("optimizer_state", recorded.at("optimizer_state"), r.bytes.optimizer_state);
  add("steady.forward.peak.allocated", steady.at("forward").at("allocated_peak"),
      highest(r, {Phase::forward, Phase::loss}));
  add("steady.backward.peak.allocated", steady.at("backward").at("allocated_peak"), highest(r, {Phase::backward}));
  add("steady.step.peak.allocated", steady.at("step").at("allocated_peak"),
      highest(r, {Phase::clip, Phase::optimizer}));
  add("steady.peak.allocated", recorded.at("peak_allocated"), r.peak.reading.allocated_bytes);
  add("steady.peak.reserved", recorded.at("peak_reserved"), r.peak.reading.reserved_bytes);
}

}  // namespace

Scored score_reference(const std::string& root, const std::string& folder, const std::string& gpu) {
  Scored scored;
  const fs::path path = fs::path(root) / folder;
  const json environment = load(path / "env.json");
  for (const json& recorded : load(path / "models.json")) {
    const std::string spec = "configs/models/" + recorded.at("model").get<std::string>();
    const bool in_zoo = fs::exists(fs::path(root) / (spec + ".yaml"));
    if (recorded.contains("error") || !recorded.contains("steady") || !in_zoo) {
      scored.left_out.push_back({name_of_run(recorded), !in_zoo ? "the zoo has no such model"
                                                        : recorded.contains("error")
                                                            ? "the run failed"
                                                            : "the recording ends before a settled step"});
      continue;
    }
    std::vector<Variable> set;
    const json variables = recorded.value("set", json::object());
    for (const auto& [name, value] : variables.items()) set.push_back({name, std::stoll(value.get<std::string>())});
    score(scored.rows, recorded, plan_spec(spec, config_of(recorded, environment), gpu, set), "reference " + gpu);
  }
  return scored;
}

std::vector<std::string> reference_gpus(const std::string& root) {
  std::vector<std::string> gpus;
  std::error_code none;
  for (const auto& f : fs::directory_iterator(fs::path(root) / "tests/reference", none))
    if (fs::exists(f.path() / "models.json")) gpus.push_back(f.path().filename());
  std::ranges::sort(gpus);
  return gpus;
}

}  // namespace gpuplan
