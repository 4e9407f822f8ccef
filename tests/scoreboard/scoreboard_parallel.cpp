// One rank of DDP, of DDP with ZeroRedundancyOptimizer and of FSDP2, phase by phase, beside what PyTorch 2.15 allocated
// on an imagined H200 (parallel/recorded.jsonl; recorders/several_gpus.py says how).
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/recorded_phases.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

using nlohmann::json;

// "fsdp2+bf16+fp32_op": a way to share the model, with a policy, and what is checkpointed.
struct Kind {
  std::string way, policy;
  CheckpointConfig::Kind checkpoint = CheckpointConfig::Kind::as_written;
};

Kind kind_of(const json& r) {
  Kind kind;
  kind.way = r.at("kind");
  for (const auto& [ending, checkpoint] :
       {std::pair{std::string("_block"), CheckpointConfig::Kind::block}, {"_op", CheckpointConfig::Kind::op}})
    if (kind.way.ends_with(ending)) {
      kind.way.resize(kind.way.size() - ending.size());
      kind.checkpoint = checkpoint;
    }
  const std::size_t plus = kind.way.find('+');
  if (plus == std::string::npos) return kind;
  kind.policy = kind.way.substr(plus + 1);
  kind.way.resize(plus);
  return kind;
}

// "bf16+fp32": what is gathered, and what is reduced.
void read_policy(const std::string& policy, Strategy& s) {
  if (policy.empty()) return;
  const std::size_t plus = policy.find('+');
  const auto type = [](const std::string& word) { return word == "as" ? std::nullopt : dtype_from_name(word); };
  s.param_type = type(policy.substr(0, plus));
  if (plus != std::string::npos) s.reduce_type = type(policy.substr(plus + 1));
}

Strategy strategy_of(const json& r) {
  const Kind asked = kind_of(r);
  const std::string& kind = asked.way;
  Strategy s;
  if (kind.starts_with("ddp")) s.data = DataParallel::ddp;
  if (kind == "zero1") s.data = DataParallel::zero1;
  if (kind.starts_with("fsdp2")) s.data = DataParallel::fsdp;
  s.gradient_as_bucket_view = kind.ends_with("_view");
  s.find_unused_parameters = kind.starts_with("ddp_unused");
  s.reshard_after_forward = kind != "fsdp2_keep";
  s.keeps_last_block = kind.starts_with("fsdp2_last");
  s.reshards_root = kind.ends_with("root");
  s.gpus = r.at("world");
  s.rank = r.at("rank");
  if (r.at("model") == "uneven") s.unit_glob = "*";
  read_policy(asked.policy, s);
  return s;
}

RunConfig run_of(const json& r) {
  RunConfig run;
  run.batch = r.at("batch").get<std::int64_t>() * r.at("world").get<std::int64_t>();
  const std::string optimizer = r.at("optimizer");
  run.optimizer.kind = optimizer == "adam"    ? OptimizerKind::adam
                       : optimizer == "adamw" ? OptimizerKind::adamw
                                              : OptimizerKind::sgd;
  run.optimizer.momentum = optimizer == "momentum";
  run.loop = Loop::function;
  run.checkpoint.kind = kind_of(r).checkpoint;
  return run;
}

Model model_of(const std::string& name) {
  RunOptions options;
  options.model = "zoo:" + name;
  if (name == "llama") {
    options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json";
    options.seq = "1024";
  }
  if (name == "uneven" || name == "mlp" || name == "unused")
    options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/" + name + ".yaml";
  return load_model(options);
}

Reading reading_of(const json& r) {
  return {
      .requested_bytes = r.at("requested"), .allocated_bytes = r.at("allocated"), .reserved_bytes = r.at("reserved")};
}

std::string name_of_run(const json& r) {
  const auto word = [&](const char* key) { return r.at(key).get<std::string>(); };
  return word("model") + " " + word("kind") + " " + word("optimizer") + " b" + r.at("batch").dump() + " rank " +
         r.at("rank").dump() + " of " + r.at("world").dump();
}

void score_run(std::vector<ScoreRow>& rows, const json& r) {
  const Gpu gpu = *gpu_called("h200");
  const Report report = report_of(make_plan(model_of(r.at("model")), make_catalog(), run_of(r), &gpu, strategy_of(r)));
  ScoreRow row{.suite = "parallel h200", .run = name_of_run(r), .quantity = "optimizer_state"};
  row.expected = r.at("optimizer_state");
  row.got = report.bytes.optimizer_state;
  rows.push_back(row);
  for (const bool steady : {false, true}) {
    const std::string step = steady ? "steady" : "first";
    for (const auto& [phase, recorded] : r.at(step).items()) {
      const PhaseRow& planned = planned_phase(report, steady, phase);
      row.quantity = step + "." + phase + ".live";
      score_reading(rows, row, reading_of(recorded.at("live")), planned.live);
      row.quantity = step + "." + phase + ".peak";
      score_reading(rows, row, reading_of(recorded.at("peak")), planned.peak);
    }
  }
}

}  // namespace

Scored score_parallel(const std::string& root) {
  std::ifstream file(root + "/tests/parallel/recorded.jsonl");
  if (!file) throw std::runtime_error("there is no tests/parallel/recorded.jsonl");
  Scored scored;
  for (std::string line; std::getline(file, line);) score_run(scored.rows, json::parse(line));
  return scored;
}

}  // namespace gpuplan
