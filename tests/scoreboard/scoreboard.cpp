#include "tests/scoreboard/scoreboard.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/recorded_phases.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json load(const fs::path& path) {
  std::ifstream in(path);
  return json::parse(in);
}

std::vector<fs::path> json_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& f : fs::directory_iterator(folder))
    if (f.path().extension() == ".json") files.push_back(f.path());
  std::ranges::sort(files);
  return files;
}

// The spec of a recorded case: a model made for the recordings or one of the zoo, of which some cases are variants.
// Empty where there is none: a layer that the model has is not in the catalog yet.
std::string spec_of(const std::string& root, const std::string& name) {
  std::string zoo = name == "ex3_conv_chain" ? "conv_chain" : name;
  if (zoo.ends_with("_b3")) zoo.resize(zoo.size() - 3);  // the same model at batches that are not powers of two
  for (const std::string& path : {"tests/shadow/models/" + name, "configs/models/" + zoo})
    if (fs::exists(fs::path(root) / (path + ".yaml"))) return path;
  return "";
}

class Rows {
 public:
  Rows(std::vector<ScoreRow>& rows, std::string suite, std::string run)
      : rows_(rows), suite_(std::move(suite)), run_(std::move(run)) {}
  void add(std::string quantity, const json& expected, std::int64_t got, std::int64_t at_most = 0) {
    if (expected.is_number())
      rows_.push_back({suite_, run_, std::move(quantity), expected.get<std::int64_t>(), got, at_most});
  }

 private:
  std::vector<ScoreRow>& rows_;
  std::string suite_, run_;
};

OptimizerConfig optimizer_named(const std::string& name) {
  static const std::map<std::string, OptimizerKind> kinds = {
      {"sgd", OptimizerKind::sgd},         {"momentum", OptimizerKind::sgd},      {"sgd_momentum", OptimizerKind::sgd},
      {"adam", OptimizerKind::adam},       {"adamw", OptimizerKind::adamw},       {"rmsprop", OptimizerKind::rmsprop},
      {"adagrad", OptimizerKind::adagrad}, {"adadelta", OptimizerKind::adadelta}, {"nadam", OptimizerKind::nadam},
      {"radam", OptimizerKind::radam},     {"adamax", OptimizerKind::adamax}};
  OptimizerConfig c;
  c.kind = kinds.at(name);
  c.momentum = name == "momentum" || name == "sgd_momentum";
  return c;
}

// --- oracle: PyTorch's tensors ---------------------------------------------------------------------------------------

void score_training(Rows& rows, const json& train, const Report& r, bool peaks) {
  const auto& t = r.tensor_peak;
  rows.add("after_model_load", train.value("after_model_load", json()), t.after_model_bytes);
  rows.add("fwd_start", train["fwd_start"], t.start_bytes);
  rows.add("fwd_end", train["fwd_end"], t.forward_end_bytes);
  rows.add("bwd_start", train["bwd_start"], t.end_of_forward_bytes);
  rows.add("bwd_end", train["bwd_end"], t.backward_end_bytes);
  rows.add("fwd_peak", train["fwd_peak"], t.forward_bytes);
  rows.add("loss_peak", train["loss_peak"], t.loss_peak_bytes);
  if (!peaks) return;
  rows.add("bwd_peak", train["bwd_peak"], t.backward_bytes);
  rows.add("peak", train["peak"], std::max({t.forward_bytes, t.loss_peak_bytes, t.backward_bytes}));
  rows.add("after_step", train.value("after_step", json()), t.end_bytes);
}

// Leaf modules by name: parameters, multiply-adds and what autograd saves first in them. A module that is called
// more than once (ResNet's relu) has several rows of one name and is left out.
void score_layers(Rows& rows, const json& d, const Report& r) {
  std::map<std::string, const LayerRow*> ours;
  for (const LayerRow& layer : r.layers) ours.try_emplace(layer.name, &layer);
  std::map<std::string, int> calls;
  for (const json& row : d["layers"]) ++calls[row[0].get<std::string>()];
  for (const json& row : d["layers"]) {  // name, type, hparams, inputs, outputs, params, macs, macs_by_ops, saved_bytes
    const auto found = ours.find(row[0].get<std::string>());
    const std::string name = row[0].get<std::string>();
    if (found == ours.end() || found->second->type != row[1].get<std::string>() || calls[name] > 1) continue;
    // A shared weight is counted with each of its modules there and once here; the totals are compared elsewhere.
    if (found->second->parameters > 0 || row[5] == 0)
      rows.add("layer " + name + ".params", row[5], found->second->parameters);
    rows.add("layer " + name + ".macs", row[6], found->second->forward_macs);
    rows.add("layer " + name + ".saved", row[8], found->second->saved_bytes);
  }
}

void score_optimizers(Rows& rows, const json& optimizers, const std::string& spec, RunConfig run) {
  for (const auto& [name, expected] : optimizers.items()) {
    if (!expected.is_object()) continue;
    run.optimizer = optimizer_named(name);
    for (const auto& [impl, suffix] :
         {std::pair{OptimizerImpl::for_loop, "for_loop"}, {OptimizerImpl::foreach_, "foreach_1_13"}}) {
      run.optimizer.impl = impl;
      const Report r = plan_spec(spec, run);
      rows.add(name + ".state", expected["state_bytes"], r.bytes.optimizer_state);
      rows.add(name + ".step_peak_" + suffix, expected[std::string("step_peak_") + suffix], r.tensor_peak.bytes);
      rows.add(name + ".opt_step_" + suffix,
               expected["opt_step_live"].get<std::int64_t>() +
                   expected[std::string("transient_") + suffix].get<std::int64_t>(),
               r.tensor_peak.optimizer_bytes);
    }
  }
}

void score_inference(Rows& rows, const json& expected, const std::string& spec, RunConfig run) {
  run.mode = Mode::infer;
  const Report r = plan_spec(spec, run);
  rows.add("inference.start", expected["start"], r.tensor_peak.start_bytes);
  rows.add("inference.peak", expected["peak"], r.tensor_peak.forward_bytes);
  rows.add("inference.end", expected["end"], r.tensor_peak.forward_end_bytes);
}

void score_oracle_case(std::vector<ScoreRow>& out, const json& d, const std::string& spec, int pytorch) {
  const std::string suite = pytorch < 200 ? "oracle 1.13" : "oracle 2.x";
  Rows rows(out, suite, d["case"].get<std::string>() + " b" + std::to_string(d["batch"].get<int>()));
  RunConfig run;
  run.batch = d["batch"];
  run.loop = d.value("output_released_before_backward", false) ? Loop::loss_only : Loop::function;
  run.scratch = Scratch::none;
  run.pytorch = pytorch;
  run.optimizer = optimizer_named("sgd");
  if (pytorch < 200) run.optimizer.impl = OptimizerImpl::for_loop;
  const Report r = plan_spec(spec, run);
  rows.add("parameters", d["params"]["bytes"], r.bytes.parameters);
  rows.add("parameter_elements", d["params"]["count"], r.model.parameters);
  rows.add("buffers", d["buffers"]["bytes"], r.bytes.buffers);
  rows.add("buffer_elements", d["buffers"]["count"], r.model.buffers);
  rows.add("macs.forward", d["macs"]["forward"], r.compute.forward_macs);
  // The oracle's backward has what its fused attention computes again.
  rows.add("flops.backward", 2 * d["macs"]["backward"].get<std::int64_t>(),
           r.compute.backward_flops + r.compute.recompute_flops);
  if (pytorch < 200) {
    rows.add("saved", d["saved_for_backward"]["cuda_bytes"], r.bytes.saved_for_backward);
    score_layers(rows, d, r);
    score_training(rows, d["train"], r, true);
    if (d.contains("optimizers")) score_optimizers(rows, d["optimizers"], spec, run);
    score_inference(rows, d["inference"], spec, run);
  } else {
    rows.add("saved", d["pytorch_2x"]["saved_cuda_bytes"], r.bytes.saved_for_backward);
    score_training(rows, d["pytorch_2x"]["train"], r, false);
  }
}

// --- shadow: PyTorch's CUDA code -------------------------------------------------------------------------------------

RunConfig config_of(const json& recipe, bool cudnn, int pytorch) {
  RunConfig run;
  run.batch = recipe["batch"];
  run.precision = *dtype_from_name(recipe.value("dtype", "fp32"));
  run.mode = recipe["mode"] == "infer" ? Mode::infer : Mode::train;
  run.pytorch = pytorch;
  run.scratch = cudnn ? Scratch::full : Scratch::no_cudnn;
  run.loop = Loop::function;
  if (recipe.value("loop", "") == "plain") run.loop = Loop::plain;
  if (recipe.value("loop", "") == "loss_only") run.loop = Loop::loss_only;
  if (run.mode == Mode::train) run.optimizer = optimizer_named(recipe["opt"]);
  const std::string impl = recipe.value("impl", "foreach");
  run.optimizer.impl = impl == "fused"     ? OptimizerImpl::fused
                       : impl == "forloop" ? OptimizerImpl::for_loop
                                           : OptimizerImpl::foreach_;
  run.clip_grad_norm = recipe.value("clip", false);
  run.alloc_conf = recipe.value("alloc_conf", "");
  if (recipe.contains("amp")) run.autocast = dtype_from_name(recipe["amp"].get<std::string>());
  run.micro_batches = recipe.value("micro", 1);
  if (recipe.value("channels_last", false)) run.layout = MemoryFormat::channels_last;
  if (recipe.value("checkpoint", false)) run.checkpoint.kind = CheckpointConfig::Kind::block;
  run.optimizer_in_backward = recipe.value("in_backward", false);
  run.labels = recipe.value("labels", false);
  run.master_weights = recipe.value("master", false);
  run.offload_saved = recipe.value("offload_saved", false);
  run.offload_optimizer = recipe.value("offload_optimizer", false);
  if (recipe.value("attn", "") == "eager") run.attention = Attention::eager;
  return run;
}

void add_reading(Rows& rows, const std::string& quantity, const json& expected, const Reading& got) {
  rows.add(quantity + ".requested", expected["requested"], got.requested_bytes);
  rows.add(quantity + ".allocated", expected["allocated"], got.allocated_bytes);
  rows.add(quantity + ".reserved", expected["reserved"], got.reserved_bytes);
}

void score_phases(Rows& rows, const json& expected, const Report& r, bool steady) {
  const std::string step = steady ? "steady." : "first.";
  for (const auto& [name, phase] : expected.items()) {
    if (name == "peak" || name == "peak_phase") continue;
    const PhaseRow& row = planned_phase(r, steady, name);
    if (name == "end") {
      add_reading(rows, step + "end", phase, row.live);
      continue;
    }
    add_reading(rows, step + name + ".live", phase["live"], row.live);
    add_reading(rows, step + name + ".peak", phase["peak"], row.peak);
  }
  if (!steady) return;
  const json& peak = expected["peak"];
  rows.add("steady.peak.requested", peak["requested"], r.peak.reading.requested_bytes);
  rows.add("steady.peak.allocated", peak["allocated"], r.peak.reading.allocated_bytes, r.at_most->allocated_bytes);
  rows.add("steady.peak.reserved", peak["reserved"], r.peak.reading.reserved_bytes, r.at_most->reserved_bytes);
}

// An exception's first sentence.
std::string why(const std::string& error) { return error.substr(0, error.find_first_of(".\n")); }

}  // namespace

Scored score_oracle(const std::string& root, int pytorch) {
  Scored scored;
  for (const fs::path& path : json_files(fs::path(root) / "tests/oracle")) {
    const json d = load(path);
    const std::string spec = spec_of(root, d["case"]);
    // From 2.0 on its nn.MultiheadAttention is a fused kernel, which the oracle's PyTorch does not have.
    if (d["case"] == "bert_encoder" && pytorch >= 200)
      scored.left_out.push_back(
          {path.stem(), "its attention is a fused kernel, which the oracle's PyTorch does not have"});
    else if (d.contains("error"))
      scored.left_out.push_back({path.stem(), "PyTorch refused it: " + why(d["error"]["message"])});
    else if (spec.empty())
      scored.left_out.push_back({path.stem(), "there is no spec of it"});
    else
      score_oracle_case(scored.rows, d, spec, pytorch);
  }
  return scored;
}

Scored score_shadow(const std::string& root, const std::string& set) {
  Scored scored;
  const std::string gpu = set.substr(0, set.find('.'));
  const int pytorch = set.find("torch2.8") != std::string::npos ? 208 : 215;
  const bool cudnn = set.find("nocudnn") == std::string::npos;
  for (const fs::path& path : json_files(fs::path(root) / "tests/shadow/results" / set)) {
    const json d = load(path);
    const std::string spec = spec_of(root, d["case"]);
    for (const json& recipe : d["runs"]) {
      const std::string run = d["case"].get<std::string>() + " " + recipe["recipe"].get<std::string>();
      if (recipe.contains("error") || spec.empty()) {
        scored.left_out.push_back({run, spec.empty() ? "there is no spec of it" : why(recipe["error"])});
        continue;
      }
      const Report r = plan_spec(spec, config_of(recipe, cudnn, pytorch), gpu == "a100" ? "a100-80gb" : gpu);
      Rows out(scored.rows, "shadow " + set, run);
      if (recipe.contains("first_step")) score_phases(out, recipe["first_step"], r, false);
      score_phases(out, recipe["steady_step"], r, true);
      out.add("parameter_elements", recipe["params"]["count"], r.model.parameters);
      out.add("trainable_elements", recipe["params"].value("trainable", json()), r.model.trainable_parameters);
      out.add("parameters", recipe["params"]["bytes"], r.bytes.parameters);
      out.add("buffers", recipe["buffers"]["bytes"], r.bytes.buffers);
      if (recipe.contains("saved")) out.add("saved", recipe["saved"]["bytes"], r.bytes.saved_for_backward);
      if (recipe.contains("optimizer_state"))
        out.add("optimizer_state", recipe["optimizer_state"], r.bytes.optimizer_state);
      if (recipe.contains("gradients")) out.add("gradients", recipe["gradients"], r.bytes.gradients);
      out.add("inputs", recipe["inputs"], r.bytes.inputs);
    }
  }
  return scored;
}

std::vector<std::string> shadow_sets(const std::string& root) {
  std::vector<std::string> sets;
  for (const auto& f : fs::directory_iterator(fs::path(root) / "tests/shadow/results"))
    sets.push_back(f.path().filename());
  std::ranges::sort(sets);
  return sets;
}

namespace {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size() - 1)))];
}

}  // namespace

ScoreSummary summarize(const std::string& suite, const std::vector<ScoreRow>& rows) {
  ScoreSummary s;
  s.suite = suite;
  std::map<std::string, bool> runs;
  std::vector<double> allocated, reserved;
  double sum = 0;
  for (const ScoreRow& row : rows) {
    const bool equal = row.expected == row.got;
    ++s.figures;
    s.equal_figures += equal ? 1 : 0;
    const auto [it, fresh] = runs.try_emplace(row.run, true);
    it->second = it->second && equal;
    const double error =
        row.expected == 0 ? 0 : static_cast<double>(row.got - row.expected) / static_cast<double>(row.expected);
    if (row.quantity.find("peak") != std::string::npos && std::abs(error) > std::abs(s.worst_peak_error)) {
      s.worst_peak_error = error;
      s.worst = row.run + " " + row.quantity;
    }
    if (row.quantity == "steady.peak.allocated") {
      allocated.push_back(std::abs(error));
      sum += error;
    }
    if (row.quantity == "steady.peak.reserved") reserved.push_back(std::abs(error));
  }
  for (const auto& [run, equal] : runs) {
    ++s.runs;
    s.equal_runs += equal ? 1 : 0;
  }
  s.median_allocated_error = quantile(allocated, 0.5);
  s.p95_allocated_error = quantile(allocated, 0.95);
  s.bias_allocated = allocated.empty() ? 0 : sum / static_cast<double>(allocated.size());
  s.median_reserved_error = quantile(reserved, 0.5);
  s.p95_reserved_error = quantile(reserved, 0.95);
  return s;
}

}  // namespace gpuplan
