// What `gpuplan plan --gpus N` says: rows of communication, the JSON, stages, and what is refused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "estimator/base/error.h"
#include "estimator/distributed/stage_plan.h"
#include "estimator/plan/plan.h"
#include "estimator/report/several_gpus.h"
#include "estimator/report/stages_text.h"
#include "estimator/report/writers.h"
#include "estimator/search/gpus_needed.h"
#include "layers/catalog.h"
#include "tests/support/json_schema.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

Report plan_of(const std::string& model, DataParallel data, std::int64_t gpus, const Topology& topology = {}) {
  RunConfig run;
  run.batch = 16;
  run.optimizer.kind = OptimizerKind::adam;
  Strategy s;
  s.data = data;
  s.gpus = gpus;
  return report_of(make_plan(zoo_model(model), make_catalog(), run, nullptr, s), topology);
}

// Of four GPUs.
StagesReport two_stages() {
  StagesReport report;
  report.model = "net";
  report.run.optimizer.kind = OptimizerKind::adam;
  report.run.precision = DType::bf16;
  report.run.batch = 8;
  report.run.micro_batches = 4;
  report.strategy.gpus = 4;
  report.strategy.pipeline = 2;
  report.stages = {{100, 1800, 2, 3000}, {200, 3600, 1, 1500}};
  return report;
}

constexpr std::int64_t kBytes = 25'557'032 * 4;  // ResNet-50's parameters in fp32

}  // namespace

TEST_CASE("DDP sends 2 (n - 1) / n of the gradients, and the buffers") {
  Topology nodes;
  nodes.within_node = Link{100e9, 0};
  const Report plan = plan_of("resnet50", DataParallel::ddp, 4, nodes);
  REQUIRE(plan.rank->communication.size() == 2);
  // 26,560 means and variances twice in fp32, 53 counters in int64.
  CHECK(plan.rank->communication[0].bytes == 2 * 26'560 * 4 + 53 * 8);
  CHECK(plan.rank->communication[1].bytes == kBytes);
  CHECK(plan.rank->communication[1].sent_bytes == kBytes * 3 / 2);
  CHECK(*plan.rank->communication[1].seconds == doctest::Approx(kBytes * 1.5 / 100e9));
  CHECK(!plan_of("resnet50", DataParallel::ddp, 4).rank->communication[1].seconds);
}

TEST_CASE("ZeRO's stages send what DeepSpeed sends by default") {
  const auto sent = [](DataParallel data) {
    std::int64_t bytes = 0;
    const Report report = plan_of("resnet50", data, 4);
    for (const CommunicationRow& row : report.rank->communication) bytes += row.sent_bytes;
    return bytes;
  };
  // An all-reduce of the gradients, 2 (n - 1) / n, and a gather of the parameters, (n - 1) / n: half as much again as
  // arXiv:1910.02054 has in section 7, for DeepSpeed reduces buckets of several ranks to all of them.
  CHECK(sent(DataParallel::zero2) == 3 * (kBytes * 3 / 4));
  // A gather of every parameter once, for the small ones after the step, and a reduce-scatter. Backward gathers
  // nothing: all of it is used again within 1e9 elements.
  CHECK(sent(DataParallel::zero3) == 2 * (kBytes * 3 / 4));
}

TEST_CASE("stage 3 gathers again for backward what is used again after 1e9 elements only, and small parameters never") {
  // Four matrices of 16,384 x 16,384 = 268,435,456 elements and four biases. Behind the first lie three of them, behind
  // the second two, which are passed twice before they are used again: 1.6e9 and 1.07e9 elements; then 0.5e9.
  const Model model = testing::read_spec(
      "gpuplan: 1\ninput: {shape: [16384]}\nlayers:\n  - Linear(16384, 16384)\n  - Linear(16384, 16384)\n"
      "  - Linear(16384, 16384)\n  - Linear(16384, 16384)\nloss: mean\n");
  RunConfig run;
  run.batch = 8;
  Strategy s;
  s.data = DataParallel::zero3;
  s.gpus = 8;
  const std::vector<CommunicationRow> rows =
      report_of(make_plan(model, make_catalog(), run, nullptr, s)).rank->communication;
  REQUIRE(rows.size() == 4);
  constexpr std::int64_t kMatrix = std::int64_t{4} * 16'384 * 16'384;
  CHECK(rows[0].bytes == 4 * kMatrix);
  CHECK(rows[0].copied_bytes == 4 * kMatrix);
  CHECK(rows[0].copies == 4);
  CHECK(rows[1].bytes == 2 * kMatrix);
  CHECK(rows[2].bytes == 4 * (kMatrix + 4 * 16'384));
  CHECK(rows[3].what == "parameters, small");
  CHECK(rows[3].bytes == 4 * 4 * 16'384);
}

TEST_CASE("ZeRO-2 and 3 have their states by definition, and all else of one GPU") {
  const Report one = plan_of("resnet50", DataParallel::none, 4);
  const Report shared = plan_of("resnet50", DataParallel::zero3, 4);
  const auto part = [](const Report& r, Category c) {
    for (const PeakPart& p : r.peak.parts)
      if (p.category == c) return p.bytes;
    return std::int64_t{0};
  };
  // The optimizer steps a part, whose scratch is so much smaller that the peak lies at a neighbouring operation.
  CHECK(static_cast<double>(part(shared, Category::activations)) ==
        doctest::Approx(static_cast<double>(part(one, Category::activations))).epsilon(0.01));
  CHECK(part(shared, Category::parameters) == shared.rank->states.parameters);
  CHECK(shared.rank->states.optimizer_state == 2 * shared.rank->states.parameters);
  std::int64_t all = 0;
  for (const PeakPart& p : shared.peak.parts) all += p.bytes;
  CHECK(shared.peak.reading.allocated_bytes == all);
}

TEST_CASE("frozen parameters are there as the others are: whole with ZeRO-2, in parts with ZeRO-3 and FSDP2") {
  // 1,024 x 1,024 weights, frozen, and 1,024 x 8 that are trained; fp32, Adam.
  const Model model = testing::read_spec(R"yaml(
gpuplan: 1
name: m
input: {shape: [1024]}
layers:
  - {name: base, op: "Linear(1024, 1024, bias=False)", frozen: true}
  - head: Linear(1024, 8, bias=False)
loss: mean
)yaml");
  constexpr std::int64_t kFrozen = 4 * 1'024 * 1'024, kTrained = 4 * 8 * 1'024;
  RunConfig run;
  run.batch = 4;
  run.optimizer.kind = OptimizerKind::adam;
  const auto states = [&](DataParallel data) {
    Strategy s;
    s.data = data;
    s.gpus = 4;
    return report_of(make_plan(model, make_catalog(), run, nullptr, s)).rank->states;
  };
  CHECK(states(DataParallel::ddp).parameters == kFrozen + kTrained);
  CHECK(states(DataParallel::zero2) == StateBytes{kFrozen + kTrained, kTrained / 4, 2 * kTrained / 4});
  CHECK(states(DataParallel::zero3) == StateBytes{(kFrozen + kTrained) / 4, kTrained / 4, 2 * kTrained / 4});
  CHECK(states(DataParallel::fsdp).parameters == (kFrozen + kTrained) / 4);
}

TEST_CASE("ZeRO's optimizer has scratch for its part only") {
  // Adam's foreach step of a batch of 1, where the optimizer is the peak: temporaries of all 33,579,012 parameters.
  const Model model = testing::read_spec(R"yaml(
gpuplan: 1
name: m
input: {shape: [4096]}
layers:
  - Linear(4096, 4096)
  - Linear(4096, 4096)
  - Linear(4096, 4)
loss: mean
)yaml");
  RunConfig run;
  run.batch = 8;
  run.optimizer.kind = OptimizerKind::adam;
  const auto scratch = [&](DataParallel data) {
    Strategy s;
    s.data = data;
    s.gpus = 8;
    for (const PeakPart& p : report_of(make_plan(model, make_catalog(), run, nullptr, s)).peak.parts)
      if (p.category == Category::scratch) return p.bytes;
    return std::int64_t{0};
  };
  CHECK(scratch(DataParallel::ddp) > 33'000'000 * 4);
  CHECK(scratch(DataParallel::zero3) < scratch(DataParallel::ddp) / 7);
}

TEST_CASE("the JSON of several GPUs is the plan's with a key more, which the schema has") {
  const Report plan = plan_of("mlp", DataParallel::fsdp, 8);
  const nlohmann::json json = nlohmann::json::parse(several_gpus_json(plan, "0.1.0"));
  tests::check_against(nlohmann::json::parse(plan_json_schema()), json, "plan");
  CHECK(json["parallel"]["data"] == "fsdp");
  CHECK(json["parallel"]["gpus"] == 8);
  CHECK(json["parallel"]["batch"] == 16);
  CHECK(json["run"]["batch"] == 2);
  CHECK(json["parallel"]["communication"][0]["microseconds"].is_null());
}

TEST_CASE("stages are those of a GPT, first and last different") {
  const Model gpt2 = zoo_model("gpt2");
  Strategy s;
  s.data = DataParallel::ddp;
  s.gpus = 16;
  s.tensor = 2;
  s.pipeline = 4;
  const Transformer t = transformer_of(gpt2, 124'439'808, s);
  CHECK(t.vocabulary == 50'432);  // 50,257 up to a multiple of 128 * 2
  const std::vector<StageRow> rows = plan_stages(t, s, 64, 8, RecomputeMode::none);
  REQUIRE(rows.size() == 4);
  // Three layers, half of each: 3 ((12 h^2 + 7 h) / 2 + 6 h), h = 768; the first with half of the words, all positions.
  constexpr std::int64_t kLayers = 3 * ((12 * 768 * 768 + 7 * 768) / 2 + 6 * 768);
  CHECK(rows[1].parameters == kLayers);
  CHECK(rows[0].parameters == kLayers + 50'432 / 2 * 768 + 1024 * 768);
  CHECK(rows[3].parameters == kLayers + 50'432 / 2 * 768 + 2 * 768);
  CHECK(rows[1].state_bytes == 18 * kLayers);
  CHECK(rows[0].in_flight == 4);
  CHECK(rows[3].in_flight == 1);
  s.data = DataParallel::zero1;  // two data-parallel ranks share twelve of the 18 bytes
  CHECK(plan_stages(t, s, 64, 8, RecomputeMode::none)[1].state_bytes == 12 * kLayers);
  CHECK_THROWS_AS(transformer_of(zoo_model("llama3_8b"), 8'030'261'248, s), Error);
  CHECK_THROWS_AS(plan_stages(t, s, 60, 8, RecomputeMode::none), Error);
}

TEST_CASE("the fullest stage and the context decide whether a GPU has room") {
  StagesReport report = two_stages();
  report.strategy.tensor = 2;
  report.context_bytes = 500;
  CHECK(report.fullest() == 1);
  CHECK(report.device_bytes() == 3600 + 1500 + 500);
  CHECK(report.fits());
  Gpu gpu = assumed_gpu();
  gpu.memory_bytes = 5600;
  gpu.cuda_total_bytes = 5600;
  report.gpu = gpu;
  CHECK(report.fits());
  report.gpu->cuda_total_bytes = 5599;
  CHECK_FALSE(report.fits());
  TextStyle style;
  style.brief = true;
  CHECK(stages_text(report, style).find("does not fit") != std::string::npos);
  CHECK(stages_text(report, style).find("stage  parameters") == std::string::npos);
}

TEST_CASE("stages say what they send and how long a step takes, as text and as JSON") {
  StagesReport report = two_stages();
  report.transformer = {2, 64, 4, 128, 256};
  report.strategy.data = DataParallel::zero1;
  const auto says = [&](const char* words) { return stages_text(report, {}).find(words) != std::string::npos; };
  CHECK(says("4 micro-batches, pipeline bubble 20.0 % of the time"));  // one slot of 4 + 1
  CHECK_FALSE(says("Time"));
  const nlohmann::json schema = nlohmann::json::parse(stages_json_schema());
  tests::check_against(schema, nlohmann::json::parse(stages_json(report, "0.1.0")), "stages");

  TransformerTime& time = report.time.emplace();
  time.products = 1;
  time.idle = 0.25;
  time.step = 1.25;
  time.alone_seconds = 4;
  time.gpus = 4;
  time.pace = report.sending_stage = 1;
  report.peak_flops = 1e12;
  CommunicationRow row;
  row.what = "PP activations";
  row.collective = Collective::send;
  row.bytes = row.sent_bytes = 1 << 20;
  row.seconds = 0.125;
  report.with_micro_batches = {row};
  // 8 samples of 128 tokens in 1.25 s.
  CHECK(says("1.25 s per step · 6.40 samples/s · 819 tokens/s in total"));
  CHECK(says("pipeline bubble 250 ms (20.0 %)"));
  CHECK_FALSE(says("pipeline bubble 20.0 %"));
  CHECK(says("80.0 % scaling efficiency · one GPU with enough memory would take 4.00 s"));
  CHECK(says("of stage 1, the slowest"));
  CHECK(says("PP activations  send        1.00 MiB   125 ms\n"));
  const nlohmann::json json = nlohmann::json::parse(stages_json(report, "0.1.0"));
  tests::check_against(schema, json, "stages");
  CHECK(json["time"]["scaling_efficiency"] == 0.8);
  CHECK(json["communication"][0]["microseconds"] == 125'000);
  report.time.reset();
  report.with_micro_batches[0].seconds.reset();
  report.no_time = "the link is not";
  CHECK(says("Time     not known: the link is not"));
  CHECK(says("1.00 MiB  not known"));
  tests::check_against(schema, nlohmann::json::parse(stages_json(report, "0.1.0")), "stages");
}

TEST_CASE("what is not planned with several GPUs is refused") {
  CHECK_THROWS_AS(plan_of("resnet50", DataParallel::ddp, 3), Error);  // 16 samples
  RunConfig run;
  run.batch = 16;
  run.micro_batches = 2;
  Strategy s;
  const auto refused = [&] {
    CHECK_THROWS_AS(report_of(make_plan(zoo_model("mlp"), make_catalog(), run, nullptr, s)), Error);
  };
  s.data = DataParallel::ddp;
  s.gpus = 4;
  s.gradient_as_bucket_view = true;
  refused();
  s = {};
  s.data = DataParallel::fsdp;
  s.gpus = 4;
  s.replicas = 3;  // of 4 ranks
  refused();
  s.replicas = 1;
  s.reduces_last = true;
  s.reduce_type = DType::bf16;  // narrower than fp32's gradients
  refused();
  run.micro_batches = 1;
  s.reduce_type.reset();
  refused();  // one micro-batch is the last
  s.reduces_last = false;
  s.unit_glob = "nothing.*";
  CHECK_THROWS_AS(report_of(make_plan(zoo_model("mlp"), make_catalog(), run, nullptr, s)), Error);
}

TEST_CASE("as many GPUs are needed as it takes for a rank's share to fit, and one fewer would not do") {
  RunConfig run;
  run.batch = 64;
  run.optimizer.kind = OptimizerKind::adam;
  const Gpu gpu = assumed_gpu();
  const std::int64_t usable = std::int64_t{3} << 30;
  Strategy s;
  s.data = DataParallel::ddp;
  s.gpus = 2;
  const auto needed = gpus_needed(zoo_model("resnet50"), make_catalog(), run, s, gpu, usable);
  REQUIRE(needed);
  CHECK(needed->device_bytes <= usable);
  CHECK(needed->batch == 64);
  s.gpus = needed->gpus / 2;
  CHECK(report_of(make_plan(zoo_model("resnet50"), make_catalog(), run, &gpu, s)).peak.device_bytes > usable);
  CHECK(!gpus_needed(zoo_model("resnet50"), make_catalog(), run, s, gpu, 1 << 20));
}

// A buffer of 64 MiB beside 32 MiB of parameters. distributed.py sends buffers where require_forward_param_sync is set,
// which the forward of a micro-batch under no_sync() clears.
TEST_CASE("DDP sends buffers, and makes its buckets anew, before the first micro-batch only") {
  const Model model = testing::read_spec(
      "gpuplan: 1\ninput: {shape: [1024]}\nlayers:\n"
      "  - {name: table, op: \"Buffer([4096, 4096])\"}\n"
      "  - {name: up, op: \"Linear(1024, 4096, bias=False)\", from: [input]}\n"
      "  - down: Linear(4096, 1024, bias=False)\nloss: mean\n");
  Strategy s;
  s.data = DataParallel::ddp;
  s.gpus = 2;
  const auto forward_peak = [&](std::int64_t micro_batches, bool first) {
    RunConfig run;
    run.batch = 4 * micro_batches;
    run.micro_batches = micro_batches;
    const Report plan = report_of(make_plan(model, make_catalog(), run, nullptr, s));
    for (const PhaseRow& r : plan.phases)
      if (r.phase == Phase::forward && r.steady != first) return r.peak.requested_bytes - r.live.requested_bytes;
    return std::int64_t{-1};
  };
  constexpr std::int64_t kTable = std::int64_t{64} << 20;
  CHECK_GE(forward_peak(1, false), kTable - (std::int64_t{1} << 20));
  CHECK_LT(forward_peak(2, false), kTable / 2);  // the row is the last micro-batch's
  CHECK_LT(forward_peak(2, true), kTable / 2);
}

}  // namespace gpuplan
