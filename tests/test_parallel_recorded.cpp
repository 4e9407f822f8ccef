// One rank of DDP, of DDP with ZeroRedundancyOptimizer and of FSDP2, phase by phase, beside what PyTorch 2.15 allocated
// on an imagined H200 (parallel/recorded.jsonl; recorders/several_gpus.py says how).
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "estimator/plan_rank.h"
#include "layers/catalog.h"
#include "tests/zoo_models.h"
#include "tools/run_options.h"

namespace gpuplan {
namespace {

using nlohmann::json;

const std::string kBlock = "_block";

bool checkpoints_blocks(const json& r) { return r.at("kind").get<std::string>().ends_with(kBlock); }

std::string way_of(const json& r) {
  std::string kind = r.at("kind");
  if (checkpoints_blocks(r)) kind.resize(kind.size() - kBlock.size());
  return kind;
}

Strategy strategy_of(const json& r) {
  const std::string kind = way_of(r);
  Strategy s;
  if (kind.starts_with("ddp")) s.data = DataParallel::ddp;
  if (kind == "zero1") s.data = DataParallel::zero1;
  if (kind.starts_with("fsdp2")) s.data = DataParallel::fsdp;
  s.gradient_as_bucket_view = kind.ends_with("_view");
  s.find_unused_parameters = kind.starts_with("ddp_unused");
  s.reshard_after_forward = kind != "fsdp2_keep";
  s.gpus = r.at("world");
  s.rank = r.at("rank");
  if (r.at("model") == "uneven") s.unit_glob = "*";
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
  if (checkpoints_blocks(r)) run.checkpoint.kind = CheckpointConfig::Kind::block;
  return run;
}

Model model_of(const std::string& name) {
  RunOptions options;
  options.model = "zoo:" + name;
  if (name == "uneven" || name == "mlp" || name == "unused")
    options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/" + name + ".yaml";
  return load_model(options);
}

void check_equal(const json& recorded, const Reading& planned) {
  CHECK(planned.requested_bytes == recorded.at("requested").get<std::int64_t>());
  CHECK(planned.allocated_bytes == recorded.at("allocated").get<std::int64_t>());
  CHECK(planned.reserved_bytes == recorded.at("reserved").get<std::int64_t>());
}

int check_run(const json& r) {
  const Gpu gpu = *gpu_called("h200");
  const Report report = plan_rank(model_of(r.at("model")), make_catalog(), run_of(r), strategy_of(r), {}, &gpu).report;
  CHECK(report.bytes.optimizer_state == r.at("optimizer_state").get<std::int64_t>());
  int rows = 0;
  for (const PhaseRow& row : report.phases) {
    const json& step = r.at(row.steady ? "steady" : "first");
    const std::string phase(name_of(row.phase));
    if (!step.contains(phase)) continue;
    const bool steady = row.steady;
    CAPTURE(steady);
    CAPTURE(phase);
    check_equal(step.at(phase).at("live"), row.live);
    check_equal(step.at(phase).at("peak"), row.peak);
    ++rows;
  }
  return rows;
}

}  // namespace

TEST_CASE("a rank of DDP, ZeRO and FSDP2 takes what PyTorch allocates, to the byte") {
  std::ifstream file(GPUPLAN_SOURCE_DIR "/tests/parallel/recorded.jsonl");
  REQUIRE(file);
  int rows = 0;
  std::string line;
  while (std::getline(file, line)) {
    const json r = json::parse(line);
    const std::string run = r.at("model").get<std::string>() + " " + r.at("kind").get<std::string>() + " rank " +
                            r.at("rank").dump() + " of " + r.at("world").dump();
    CAPTURE(run);
    rows += check_run(r);
  }
  CHECK(rows == 64 * 12);  // runs, phases of the first and of the third step
}

}  // namespace gpuplan
