// fit --may mesh: every way that it finds is a plan by itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "estimator/distributed/tensor_plan.h"
#include "estimator/report/read_sweep.h"
#include "estimator/report/sweep_table.h"
#include "tools/answers/every_rank.h"
#include "tools/answers/meshes.h"
#include "tools/answers/offered_meshes.h"
#include "tools/answers/offered_meshes_text.h"
#include "tools/answers/offered_parts.h"
#include "tools/answers/shared_planning.h"

namespace gpuplan {
namespace {

MeshQuestion question_of(const char* model, const char* gpus, const char* batch) {
  MeshQuestion question;
  question.run.model = model;
  question.run.gpu = "h100";
  question.run.batch = batch;
  question.run.optimizer = "adamw";
  question.several.gpus = gpus;
  return question;
}

// Of flags that all have a value.
std::pair<RunOptions, SeveralGpusOptions> with_flags(const MeshQuestion& question, const std::string& flags) {
  auto [run, several] = std::pair{question.run, question.several};
  const std::map<std::string, std::string*> places = {{"--tp", &several.tensor},
                                                      {"--ep", &several.experts},
                                                      {"--cp", &several.context},
                                                      {"--pp", &several.pipeline},
                                                      {"--pp-schedule", &several.pipeline_schedule},
                                                      {"--zero", &several.zero},
                                                      {"--fsdp", &several.fsdp},
                                                      {"--checkpoint", &run.checkpoint},
                                                      {"--micro-batches", &run.micro_batches},
                                                      {"--gpu", &run.gpu},
                                                      {"--gpus", &several.gpus},
                                                      {"--network", &several.network},
                                                      {"--gpus-per-node", &several.gpus_per_node},
                                                      {"--link", &several.link}};
  std::istringstream words(flags);
  for (std::string flag; words >> flag;) words >> *places.at(flag);
  return {run, several};
}

TEST_CASE("each way to share a step needs what its own plan says") {
  MeshQuestion question = question_of(GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json", "8", "32");
  question.run.seq = "128";
  question.checkpoints = question.micro_batches = true;
  std::set<std::string> ways;
  bool layers = false, stages = false, sequence = false;
  const std::vector<SweepRow> rows = meshes(question);
  for (const SweepRow& row : rows) {
    CAPTURE(row.values.front());
    CHECK(ways.insert(row.values.front()).second);
    const auto [run, several] = with_flags(question, row.values.front());
    const auto [planning, strategy] = prepare_shared(run, several);
    layers = layers || strategy->tensor > 1;
    stages = stages || strategy->runs_stages();
    sequence = sequence || strategy->tensor_plan.sequence;
    const Topology topology = topology_of(several, planning.gpu);
    const Report report = strategy->runs_stages() ? plan_every_rank(planning, *strategy, topology).report
                                                  : make_planned(planning, *strategy, topology).report;
    CHECK_EQ(row.figures->device_bytes, report.peak.device_bytes);
    CHECK_EQ(row.figures->fits, verdict(report).fits);
    REQUIRE(row.figures->step_seconds.has_value());
    CHECK(*row.figures->step_seconds == doctest::Approx(report.rank->time->step.seconds()));
  }
  CHECK(layers);
  CHECK(stages);
  CHECK(sequence);
  CHECK(std::ranges::is_sorted(rows, std::greater{},
                               [](const SweepRow& row) { return row.figures->samples_per_second.value_or(0); }));
}

// Of the rows of `parts` parts, each written and read again.
template <class RowsOf>
SweepLines read_parts(std::size_t parts, const std::vector<std::string>& names, const RowsOf& rows_of) {
  std::vector<Source> files;
  for (std::size_t i = 0; i < parts; ++i) {
    const auto [rows, points] = rows_of(Shard{i, parts});
    files.push_back({"part" + std::to_string(i), sweep_json_lines(names, rows, points)});
  }
  return read_sweep_lines(files);
}

TEST_CASE("parts of a search for meshes are the whole, also where only a context fits") {
  MeshQuestion question = question_of("zoo:llama3_8b", "8", "8");
  question.several.fsdp = "param=bf16,reduce=fp32";
  question.checkpoints = question.micro_batches = true;
  for (const char* seq : {"512", "32768"}) {
    question.run.seq = seq;
    const std::vector<std::string> names = {"changes"};
    const SweepLines lines = read_parts(3, names, [&](Shard shard) {
      const MeshPart part = mesh_part(question, shard);
      return std::pair(part.rows, part.points);
    });
    const std::vector<SweepRow> whole = meshes(question), joined = joined_meshes(lines.rows);
    CHECK_EQ(sweep_json_lines(names, joined, 0), sweep_json_lines(names, whole, 0));
  }
}

Instance instance_of(const char* name, const char* gpu, double gpus, double usd, std::optional<double> network) {
  Instance instance;
  instance.provider = "ours";
  instance.name = name;
  instance.gpu = gpu;
  instance.gpu_count = gpus;
  instance.usd = usd;
  instance.network_gbps = network;
  return instance;
}

TEST_CASE("samples that do not fit one GPU are shared by a context") {
  MeshQuestion question = question_of("zoo:llama3_8b", "8", "8");
  question.run.seq = "131072";
  question.several.fsdp = "param=bf16,reduce=fp32";
  question.checkpoints = question.micro_batches = true;
  const std::vector<SweepRow> rows = meshes(question);
  CAPTURE(rows.front().values.front());
  REQUIRE(rows.front().figures->fits);
  const auto [run, several] = with_flags(question, rows.front().values.front());
  CHECK_FALSE(several.context.empty());
  const auto [planning, strategy] = prepare_shared(run, several);
  const Report report = plan_worst_rank(planning, *strategy, topology_of(several, planning.gpu)).report;
  CHECK_EQ(rows.front().figures->device_bytes, report.peak.device_bytes);
}

TEST_CASE("each way to share a step over what is rented is a plan of its flags") {
  OfferedQuestion question;
  question.run.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json";
  question.run.optimizer = "adamw";
  question.run.seq = "512";
  CHECK_THROWS_AS(offered_meshes(question, {}), Error);  // a batch is missing
  question.run.batch = "64";
  question.names = {"t4", "a100-40gb"};
  for (const std::string& name : question.names) question.gpus.push_back(*gpu_called(name));
  question.checkpoints = question.micro_batches = true;
  question.market.gpus.clear();
  std::vector<Instance> instances = {instance_of("one", "t4", 1, 0.5, {}), instance_of("four", "t4", 4, 2, 50),
                                     instance_of("eight", "a100-40gb", 8, 20, 400),
                                     instance_of("alone", "a100-40gb", 8, 16, {})};
  instances[1].interconnect = "pcie";
  instances[1].pcie_width = 8;  // of 16 lanes
  const OfferedMeshes meshes = offered_meshes(question, instances);
  CHECK_EQ(meshes.offers, 16);  // 1, 4, 8, 16, ..., 512 T4s, and 8, 16, ..., 512 A100s: nobody rents one of them
  REQUIRE(meshes.rows.size() > 2);
  const SweepLines lines = read_parts(4, offered_mesh_names(), [&](Shard shard) {
    const OfferedMeshes part = offered_meshes(question, instances, {}, shard);
    return std::pair(part_rows(part), part.offers);
  });
  const OfferedMeshes joined = joined_offers(lines);
  CHECK_EQ(joined.offers, meshes.offers);
  CHECK_EQ(joined.fitting, meshes.fitting);
  CHECK_EQ(sweep_json_lines(offered_mesh_names(), sweep_rows(joined), 0),
           sweep_json_lines(offered_mesh_names(), sweep_rows(meshes), 0));
  std::set<std::int64_t> numbers;
  for (const OfferedMesh& row : meshes.rows) {
    CAPTURE(row.flags);
    numbers.insert(row.gpus);
    MeshQuestion asked;
    asked.run = question.run;
    const auto [run, several] = with_flags(asked, row.flags);
    const auto [planning, strategy] = prepare_shared(run, several);
    const Topology topology = topology_of(several, planning.gpu);
    const Report report = !strategy                 ? make_report(planning)
                          : strategy->runs_stages() ? plan_every_rank(planning, *strategy, topology).report
                                                    : plan_worst_rank(planning, *strategy, topology).report;
    CHECK(row.figures.fits);
    CHECK_EQ(row.figures.device_bytes, report.peak.device_bytes);
    const double seconds = strategy ? report.rank->time->step.seconds() : report.time->seconds();
    CHECK(*row.figures.step_seconds == doctest::Approx(seconds));
    REQUIRE(row.offer);
    CHECK_EQ(row.offer->gpus(), row.gpus);
    CHECK(*row.usd_per_step() == doctest::Approx(row.offer->usd * seconds / 3600));
    CHECK_EQ(row.flags.find("--link 6 ") != std::string::npos, row.offer->instance.name == "four");
    if (row.offer->count > 1) CHECK(row.offer->instance.network_gbps.has_value());  // else it is not joined
    for (const OfferedMesh& other : meshes.rows) {
      const bool beaten = other.figures.device_bytes < row.figures.device_bytes &&
                          *other.figures.step_seconds < *row.figures.step_seconds &&
                          *other.usd_per_step() < *row.usd_per_step();
      CHECK_FALSE(beaten);
    }
  }
  CHECK(numbers.size() > 1);
}

std::string refused_offer(SweepRow row) {
  SweepLines lines;
  lines.names = offered_mesh_names();
  lines.rows = {std::move(row)};
  lines.places = {"part: line 1"};
  lines.points = 1;
  try {
    (void)joined_offers(lines);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

TEST_CASE("lines of offers without a time, or with a number that is none, are refused with their place") {
  SweepRow row;
  row.values = {"h100", "8", "1 x aws p5.48xlarge", "55.04", "", "--gpu h100 --gpus 8"};
  row.figures.emplace().step_seconds = 1;
  CHECK_EQ(refused_offer(row), "");
  const auto with = [&](std::size_t value, const char* text) {
    SweepRow other = row;
    other.values[value] = text;
    return refused_offer(other);
  };
  CHECK_EQ(with(1, "abc"), "part: line 1: gpus is \"abc\", which is no such number");
  CHECK_EQ(with(1, "0"), "part: line 1: gpus is \"0\", which is no such number");
  CHECK_EQ(with(3, ""), "part: line 1: usd_per_hour is \"\", which is no such number");
  CHECK_EQ(with(3, "inf"), "part: line 1: usd_per_hour is \"inf\", which is no such number");
  CHECK_EQ(with(2, "many x aws p5.48xlarge"),
           "part: line 1: the number of instances is \"many\", which is no such number");
  CHECK_EQ(with(2, "p5.48xlarge"),
           "part: line 1: instances is \"p5.48xlarge\", which is not as \"8 x aws p5.48xlarge\"");
  CHECK_EQ(with(2, ""), "");  // no instance has them
  row.figures->step_seconds.reset();
  CHECK_EQ(refused_offer(row), "part: line 1: step_seconds is missing");
  row.figures.reset();
  row.error = "a reason";
  CHECK_EQ(refused_offer(row), "part: line 1: a reason");
}

TEST_CASE("sequence and loss parallelism are tried of models with a tensor plan only") {
  MeshQuestion question = question_of("zoo:gpt2", "8", "64");
  const Model gpt2 = load_model(question.run);
  REQUIRE_FALSE(has_tensor_plan(gpt2));
  for (const MeshWay& way : ways_of_layers(question, gpt2, 2)) CHECK_EQ(way.several.tensor, "2");
  for (const MeshWay& way : ways_of_stages(question, gpt2, 2, 2)) CHECK_EQ(way.several.tensor, "2");
  question.run.model = "zoo:llama3_8b";
  for (const MeshWay& way : ways_of_stages(question, load_model(question.run), 2, 2))
    CHECK_EQ(way.several.tensor, "2,sequence,loss");
}

TEST_CASE("a model is shared in the ways that there are for it") {
  const std::vector<SweepRow> rows = meshes(question_of("zoo:resnet50", "8", "512"));
  CHECK_EQ(rows.size(), 4);  // DDP, ZeRO-1, and FSDP2 with and without resharding
  for (const SweepRow& row : rows)
    CHECK((row.values.front().starts_with("--zero") || row.values.front().starts_with("--fsdp")));
  // Two nodes: a replica each, too.
  const std::vector<SweepRow> nodes = meshes(question_of("zoo:resnet50", "16", "512"));
  CHECK(std::ranges::any_of(nodes, [](const SweepRow& row) { return row.values.front() == "--fsdp replicate=2"; }));
  CHECK_THROWS_AS(meshes(question_of("zoo:resnet50", "8", "511")), Error);
}

}  // namespace
}  // namespace gpuplan
