// Recordings of whole steps on a GPU, beside the plan of the same step.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
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

// How record_steps.py names what the zoo has; else the zoo's own name.
std::string zoo_name(const std::string& recorded) {
  return recorded == "gpt2_s256" ? "gpt2_s256_fused" : recorded == "gpt2_s256_math" ? "" : recorded;
}

// Why a step that was recorded is not one that is planned; "" where it is.
std::string other_step(const json& recorded) {
  if (recorded.contains("error")) return "the run failed";
  if (!recorded.contains("steady")) return "the recording ends before a settled step";
  static const std::set<std::string> plain{"mlp", "gpt2_s256", "embed_classifier"};
  if (recorded.at("precision") == "fp32" && !plain.contains(recorded.at("model")))
    return "its convolutions run without TF32 (torch.backends.cudnn.allow_tf32 = False), which no flag asks for";
  static const std::set<std::string> overflowed{"resnet50 b32", "resnet50 b256", "vgg11 b64"};
  if (recorded.at("precision") == "amp_fp16" &&
      overflowed.contains(recorded.at("model").get<std::string>() + " b" + recorded.at("batch").dump()))
    return "its gradients overflow at first, and GradScaler skips steps of those that were recorded";
  return "";
}

// What earlier runs of the process left allocated, cuBLAS's workspaces, where this one has none of its own.
std::int64_t left_by_others(const json& recorded) {
  static const std::set<std::string> without_products{"conv_chain", "squeezenet1_1", "unet_small"};
  return without_products.contains(recorded.at("model")) ? recorded.value("base", std::int64_t{0}) : 0;
}

std::int64_t highest(const Report& r, std::initializer_list<Phase> phases,
                     std::int64_t Reading::*figure = &Reading::allocated_bytes) {
  std::int64_t bytes = 0;
  for (const PhaseRow& row : r.phases)
    if (row.steady && std::ranges::find(phases, row.phase) != phases.end()) bytes = std::max(bytes, row.peak.*figure);
  return bytes;
}

std::string name_of_run(const json& recorded) {
  std::string run = recorded.at("model").get<std::string>() + " b" + std::to_string(recorded.at("batch").get<int>());
  for (const char* key : {"precision", "optimizer", "layout", "loop"}) run += "." + recorded.value(key, "");
  return run;
}

void score(std::vector<ScoreRow>& rows, const json& recorded, const Report& r, const std::string& suite) {
  const std::string run = name_of_run(recorded);
  const auto add = [&](const std::string& quantity, const json& expected, std::int64_t got, std::int64_t less = 0) {
    rows.push_back({suite, run, quantity, expected.get<std::int64_t>() - less, got});
  };
  const std::int64_t others = left_by_others(recorded);
  const json& steady = recorded.at("steady");
  add("parameter_elements", recorded.at("params"), r.model.parameters);
  add("optimizer_state", recorded.at("optimizer_state"), r.bytes.optimizer_state);
  add("steady.forward.peak.requested", steady.at("forward").at("requested_peak"),
      highest(r, {Phase::forward, Phase::loss}, &Reading::requested_bytes), others);
  add("steady.backward.peak.requested", steady.at("backward").at("requested_peak"),
      highest(r, {Phase::backward}, &Reading::requested_bytes), others);
  add("steady.step.peak.requested", steady.at("step").at("requested_peak"),
      highest(r, {Phase::clip, Phase::optimizer}, &Reading::requested_bytes), others);
  add("steady.forward.peak.allocated", steady.at("forward").at("allocated_peak"),
      highest(r, {Phase::forward, Phase::loss}), others);
  add("steady.backward.peak.allocated", steady.at("backward").at("allocated_peak"), highest(r, {Phase::backward}),
      others);
  add("steady.step.peak.allocated", steady.at("step").at("allocated_peak"), highest(r, {Phase::clip, Phase::optimizer}),
      others);
  add("steady.peak.allocated", recorded.at("peak_allocated"), r.peak.reading.allocated_bytes, others);
  add("steady.peak.reserved", recorded.at("peak_reserved"), r.peak.reading.reserved_bytes,
      others >> 25 << 25);  // segments of 32 MiB
}

}  // namespace

Scored score_reference(const std::string& root, const std::string& folder, const std::string& gpu) {
  Scored scored;
  const fs::path path = fs::path(root) / folder;
  const json environment = load(path / "env.json");
  for (const json& recorded : load(path / "models.json")) {
    const std::string spec = "configs/models/" + zoo_name(recorded.at("model"));
    const bool in_zoo = fs::exists(fs::path(root) / (spec + ".yaml"));
    if (const std::string why = in_zoo ? other_step(recorded) : "the zoo has no such model"; !why.empty()) {
      scored.left_out.push_back({name_of_run(recorded), why});
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
