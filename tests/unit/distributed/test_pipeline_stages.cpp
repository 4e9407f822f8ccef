// Stages of torch.distributed.pipelining. What they take is compared with PyTorch in tests/parallel; here is what they
// do.
#include <doctest/doctest.h>

#include <numeric>

#include "estimator/base/integers.h"
#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/stage_model.h"
#include "estimator/plan/plan.h"
#include "estimator/schedule/pruned_graph.h"
#include "estimator/time/pipeline_time.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

using Kind = PipelineAction::Kind;

Strategy pipeline_of(std::int64_t stages, PipelineSchedule schedule, std::int64_t stage = 0) {
  Strategy s;
  s.gpus = s.pipeline = stages;
  s.pipelining.schedule = schedule;
  s.pipelining.stage = stage;
  s.pipelining.returns_outputs = false;
  return s;
}

std::string words_of(const Strategy& strategy, std::int64_t micro_batches) {
  constexpr std::string_view letters = "RFoGBgruse";  // by Kind
  std::string words;
  for (const PipelineAction& a : pipeline_actions(strategy, micro_batches))
    words += (words.empty() ? "" : " ") + std::string(1, letters[static_cast<std::size_t>(a.kind)]) +
             std::to_string(a.micro_batch);
  return words;
}

Model model_called(const char* name) {
  RunOptions options;
  options.model = name;
  options.seq = "128";
  return load_model(options);
}

std::int64_t parameters_of(const Plan& plan) {
  std::int64_t elements = 0;
  for (const ParameterTensor& p : plan.step.graph.parameters)
    elements += plan.step.graph.tensor(p.tensor).shape.elements();
  return elements;
}

TEST_CASE("a stage of 1F1B does what schedules.py has it do, in its order") {
  // R, F: receives and runs forward; o: lets its output go; G, B: receives a gradient and runs backward; g: lets that
  // go; r: that of its input; e: reduces. Read off Schedule1F1B._step_microbatches, of the middle one of three stages:
  // two warmup chunks, then a backward and a forward in turns.
  CHECK_EQ(words_of(pipeline_of(3, PipelineSchedule::one_f_one_b, 1), 3),
           "R0 F0 R1 F1 o0 G0 o1 B0 g0 R2 F2 G1 o2 B1 g1 r0 G2 B2 r1 g2 r2 e0");
  // The last stage has no output to send and no gradient to receive.
  CHECK_EQ(words_of(pipeline_of(3, PipelineSchedule::one_f_one_b, 2), 3), "R0 F0 B0 R1 F1 B1 r0 R2 F2 B2 r1 r2 e0");
  CHECK_EQ(words_of(pipeline_of(2, PipelineSchedule::gpipe), 2), "F0 F1 o0 o1 G0 B0 G1 g0 B1 g1 e0");
}

TEST_CASE("a stage whose output is a DTensor keeps it until its backward has returned") {
  // stage.py, _output_slot_is_releasable: only a plain tensor's edge of the graph stands for it.
  Strategy middle = pipeline_of(3, PipelineSchedule::one_f_one_b, 1), first = pipeline_of(2, PipelineSchedule::gpipe);
  middle.tensor_plan.sequence = first.tensor_plan.sequence = true;
  CHECK_EQ(words_of(middle, 3), "R0 F0 R1 F1 G0 B0 o0 g0 R2 F2 G1 B1 o1 g1 r0 G2 B2 o2 r1 g2 r2 e0");
  CHECK_EQ(words_of(first, 2), "F0 F1 G0 B0 o0 G1 g0 B1 o1 g1 e0");
}

TEST_CASE("so many micro-batches are in flight as there are stages behind, under 1F1B") {
  // arXiv:2104.04473, section 2.2
  for (const std::int64_t stage : {0, 1, 6, 7})
    CHECK_EQ(most_in_flight(pipeline_actions(pipeline_of(8, PipelineSchedule::one_f_one_b, stage), 32)), 8 - stage);
  CHECK_EQ(most_in_flight(pipeline_actions(pipeline_of(8, PipelineSchedule::gpipe, 5), 32)), 32);
}

TEST_CASE("equal stages take so many micro-batches longer as there are stages, less one") {
  // (m + p - 1)(t_f + t_b), arXiv:2104.04473, section 2.2.1
  const std::vector<StageSeconds> stages(4, {.forward = 1, .backward = 2});
  std::vector<double> after(4, 0);
  for (const PipelineSchedule schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b})
    CHECK(pipelined_seconds(stages, after, pipeline_of(4, schedule), 8) == doctest::Approx((8 + 4 - 1) * 3.0));
  std::vector<StageSeconds> slow = stages;
  slow[1] = {.forward = 10, .backward = 20};  // it sets the pace: 1 before, 2 after its last backward
  after[1] = 5;
  CHECK(pipelined_seconds(slow, after, pipeline_of(4, PipelineSchedule::gpipe), 8) >= 8 * 30 + 1 + 5);
}

TEST_CASE("blocks are shared evenly, as given, or as torchtitan shares them") {
  Strategy s = pipeline_of(4, PipelineSchedule::one_f_one_b);
  using Blocks = std::vector<std::int64_t>;
  CHECK_EQ(blocks_of_stages(10, s), Blocks{3, 3, 2, 2});
  // 32 + 2 over 4: 9, 9, 8, 8, and one less at either end
  s.pipelining.counts_ends = true;
  CHECK_EQ(blocks_of_stages(32, s), Blocks{8, 9, 8, 7});
  s.pipelining.blocks = {1, 2, 3, 4};
  CHECK_EQ(blocks_of_stages(10, s), Blocks{1, 2, 3, 4});
  CHECK_THROWS_AS(blocks_of_stages(11, s), Error);
  s.pipelining = {};
  CHECK_THROWS_AS(blocks_of_stages(3, s), Error);
}

TEST_CASE("stages have the whole model's parameters between them, and a tied head its copy") {
  struct Tried {
    const char* model;
    std::int64_t copied;  // vocabulary x hidden of the spec, where the head is tied
  };
  for (const Tried& tried : {Tried{"zoo:llama3_8b", 0}, Tried{"zoo:gpt2", 50257 * 768}, Tried{"zoo:vit_b_16", 0}}) {
    CAPTURE(tried.model);
    RunOptions options;
    options.model = tried.model;
    const Model model = load_model(options);
    RunConfig run;
    run.batch = run.micro_batches = 4;
    const std::int64_t whole = parameters_of(make_plan(model, make_catalog(), run, nullptr));
    std::int64_t sum = 0;
    for (const std::int64_t stage : {0, 1, 2, 3}) {
      const Plan plan =
          make_plan(model, make_catalog(), run, nullptr, pipeline_of(4, PipelineSchedule::one_f_one_b, stage));
      sum += parameters_of(plan);
      CHECK_EQ(plan.step.part.in_flight, 4 - stage);
      CHECK_EQ(plan.step.part.copies_embedding, tried.copied > 0 && stage == 3);
    }
    CHECK_EQ(sum, whole + tried.copied);
  }
}

TEST_CASE("FSDP2 shares a stage over its ranks") {
  const Model model = model_called(GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json");
  RunConfig run;
  run.batch = 16;
  run.micro_batches = 4;
  Strategy s = pipeline_of(2, PipelineSchedule::one_f_one_b, 1);
  const Report alone = report_of(make_plan(model, make_catalog(), run, nullptr, s));
  s.gpus = 8;
  s.data = DataParallel::fsdp;
  s.reshard_after_forward = false;
  s.reduces_last = true;
  const Report shared = report_of(make_plan(model, make_catalog(), run, nullptr, s));
  CHECK_EQ(shared.run.batch, 4);
  CHECK_EQ(shared.bytes.parameters, alone.bytes.parameters / 4);
  CHECK_EQ(s.global_rank(), 4);
}

TEST_CASE("the inference of shapes computes no gradient of a weight") {
  const Model model = model_called(GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json");
  RunConfig run;
  run.batch = run.micro_batches = 4;
  for (const std::int64_t stage : {0, 1, 2}) {
    const Plan plan =
        make_plan(model, make_catalog(), run, nullptr, pipeline_of(3, PipelineSchedule::one_f_one_b, stage));
    const Graph graph = inferring_graph(plan.step.graph);
    CHECK_EQ(graph.nodes.size(), plan.step.graph.nodes.size());
    for (const AutogradNode& node : graph.nodes)
      for (std::int32_t e = node.edges.begin; e < node.edges.end; ++e)
        CHECK_FALSE(graph.tensor(graph.edges[index(e)].input).trained);
    // Tokens have no gradient: the first stage runs nothing backward.
    CHECK_EQ(graph.edges.empty(), stage == 0);
    CHECK_LT(graph.backward_ops.size(), plan.step.graph.backward_ops.size());
  }
}

TEST_CASE("what stages are not planned with is refused") {
  const Model model = model_called("zoo:llama3_8b");
  RunConfig run;
  run.batch = run.micro_batches = 4;
  const auto plan = [&](const RunConfig& with, const Model& of) {
    return make_plan(of, make_catalog(), with, nullptr, pipeline_of(4, PipelineSchedule::one_f_one_b));
  };
  CHECK_NOTHROW(plan(run, model));
  RunConfig amp = run;
  amp.autocast = DType::bf16;
  CHECK_THROWS_AS(plan(amp, model), Error);
  RunConfig few = run;
  few.micro_batches = 2;
  CHECK_THROWS_WITH_AS(plan(few, model), doctest::Contains("greater than or equal to the number of stages (4)"), Error);
  RunConfig old = run;
  old.pytorch = 208;
  CHECK_THROWS_AS(plan(old, model), Error);
  Model frozen = model;
  for (Node& node : frozen.layers) node.frozen = true;
  CHECK_THROWS_WITH_AS(plan(run, frozen), doctest::Contains("nothing in it is trained"), Error);
  RunOptions resnet;
  resnet.model = "zoo:resnet50";
  CHECK_THROWS_AS(plan(run, load_model(resnet)), Error);
}

}  // namespace
}  // namespace gpuplan
