// Schedules of torch.distributed.pipelining in which a rank has several stages. What they take is compared with PyTorch
// in tests/parallel; here is what they do, and what becomes of the stages' steps.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/pipeline_actions.h"
#include "estimator/distributed/stage_split.h"
#include "estimator/plan/plan.h"
#include "estimator/schedule/pruned_graph.h"
#include "estimator/time/pipeline_time.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

Strategy looped(std::int64_t ranks, std::int64_t stages_each, PipelineSchedule schedule, std::int64_t rank = 0) {
  Strategy s;
  s.gpus = s.pipeline = ranks;
  s.pipelining.schedule = schedule;
  s.pipelining.stages_each = stages_each;
  s.pipelining.stage = rank;
  s.pipelining.returns_outputs = false;
  return s;
}

// Stages by their numbers among all: "F2.1" is the second micro-batch's forward of the third stage.
std::string words_of(const Strategy& strategy, std::int64_t micro_batches) {
  constexpr std::string_view letters = "RFoGBgruseIW";  // by Kind
  const std::vector<std::int64_t> numbers = stages_of_rank(strategy);
  std::string words;
  for (const PipelineAction& a : pipeline_actions(strategy, micro_batches)) {
    words += (words.empty() ? "" : " ") + std::string(1, letters[static_cast<std::size_t>(a.kind)]) +
             std::to_string(numbers[index(a.stage)]);
    if (a.kind < PipelineAction::Kind::unshard || a.kind > PipelineAction::Kind::reduce)
      words += "." + std::to_string(a.micro_batch);
  }
  return words;
}

Plan plan_of(const Strategy& strategy, std::int64_t micro_batches = 4) {
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json";
  options.seq = "128";
  const Model model = load_model(options);
  RunConfig run;
  run.batch = run.micro_batches = micro_batches;
  return make_plan(model, make_catalog(), run, nullptr, strategy);
}

TEST_CASE("a rank of several stages does what schedules.py has it do, in its order") {
  // pipeline_order_with_comms of ScheduleInterleaved1F1B and ScheduleLoopedBFS (PyTorch 2.15), of two ranks with two
  // stages each, but for SEND and WAIT_REDUCE_GRAD. u: UNSHARD, R: RECV_F, F, G: RECV_B, B, o: WAIT_SEND_F, e:
  // REDUCE_GRAD, s: RESHARD, r: WAIT_SEND_B; g, of which PyTorch has no action: what B was given goes when it returns.
  CHECK_EQ(words_of(looped(2, 2, PipelineSchedule::interleaved_1f1b), 2),
           "u0 u2 F0.0 R2.0 F0.1 R2.1 F2.0 F2.1 G2.0 B2.0 g2.0 o2.0 G2.1 B2.1 g2.1 o2.1 e2 s2 G0.0 B0.0 g0.0 o0.0 G0.1 "
           "B0.1 g0.1 o0.1 e0 s0 r2.0 r2.1");
  CHECK_EQ(words_of(looped(2, 2, PipelineSchedule::interleaved_1f1b, 1), 2),
           "u1 u3 R1.0 F1.0 R1.1 F1.1 R3.0 F3.0 R3.1 B3.0 G1.0 F3.1 B3.1 G1.1 e3 s3 B1.0 g1.0 o1.0 B1.1 g1.1 o1.1 e1 "
           "s1 r3.0 r3.1 r1.0 r1.1");
  CHECK_EQ(words_of(looped(2, 2, PipelineSchedule::looped_bfs), 2),
           "u0 u2 F0.0 R2.0 F0.1 R2.1 F2.0 F2.1 G2.1 B2.1 g2.1 o2.1 G2.0 B2.0 g2.0 o2.0 e2 s2 G0.1 B0.1 g0.1 o0.1 G0.0 "
           "B0.0 g0.0 o0.0 e0 s0 r2.1 r2.0");
}

TEST_CASE("zero bubble computes gradients of weights apart, so many backwards later as there are ranks before") {
  // ScheduleInterleavedZeroBubble. I: BACKWARD_INPUT, W: BACKWARD_WEIGHT, which has what g and o let go until it
  // returns.
  CHECK_EQ(words_of(looped(2, 2, PipelineSchedule::interleaved_zero_bubble, 1), 2),
           "u1 u3 R1.0 F1.0 R1.1 F1.1 R3.0 F3.0 R3.1 I3.0 G1.0 F3.1 I3.1 G1.1 W3.0 I1.0 W3.1 e3 s3 I1.1 W1.0 g1.0 o1.0 "
           "W1.1 g1.1 o1.1 e1 s1 r3.0 r3.1 r1.0 r1.1");
  CHECK_THROWS_WITH_AS(pipeline_actions(looped(2, 2, PipelineSchedule::interleaved_zero_bubble), 5),
                       doctest::Contains("Zero bubble requires the number of microbatches to be a multiple"), Error);
}

TEST_CASE("a backward in two parts computes every gradient once") {
  const Strategy split = looped(3, 2, PipelineSchedule::interleaved_zero_bubble, 1);
  const Plan parts = plan_of(split), whole = plan_of(looped(3, 2, PipelineSchedule::interleaved_1f1b, 1));
  const RankStep& step = parts.step;
  CHECK_EQ(step.schedule().with_gradient, whole.step.schedule().with_gradient);
  for (const RankStep& stage : step.joined) {
    const SplitBackward& of = *stage.split;
    CHECK_EQ(of.groups.size(), stage.graph.parameters.size());  // each weight of a Llama branches off by itself
    std::vector<int> weighed(stage.graph.tensors.size(), 0);
    for (const AutogradNode& node : of.weights.nodes)
      for (std::int32_t e = node.edges.begin; e < node.edges.end; ++e)
        ++weighed[index(of.weights.edges[index(e)].input)];
    for (const ParameterTensor& p : stage.graph.parameters) CHECK_EQ(weighed[index(p.tensor)], 1);
    for (const AutogradNode& node : of.inputs.nodes)
      for (std::int32_t e = node.edges.begin; e < node.edges.end; ++e)
        CHECK_FALSE(stage.graph.tensor(of.inputs.edges[index(e)].input).trained);
    CHECK_GT(stage.schedule().weights_begin, 0);
  }
  // Products: each is in one part or the other.
  const auto products = [](const RankStep& of) {
    return std::ranges::count(of.schedule().ops, true, &ScheduledOp::product);
  };
  CHECK_EQ(products(step), products(whole.step));
  // The first stage has no gradient of what it is given, and computes all at once.
  CHECK(plan_of(looped(3, 2, PipelineSchedule::interleaved_zero_bubble)).step.joined.front().split == nullptr);
}

TEST_CASE("stages that go through the ranks and back again are handed on within the last one") {
  // ScheduleZBVZeroBubble and ScheduleDualPipeV, of two ranks. DualPipeV overlaps what F and B stand behind each other.
  CHECK_EQ(words_of(looped(2, 2, PipelineSchedule::zbv, 1), 2),
           "u1 u2 R1.0 F1.0 R1.1 F2.0 F1.1 G2.0 F2.1 I2.0 W2.0 g2.0 o2.0 G2.1 I1.0 W1.0 g1.0 o1.0 I2.1 W2.1 g2.1 o2.1 "
           "e2 s2 I1.1 W1.1 g1.1 o1.1 e1 s1 r1.0 r1.1");
  CHECK_EQ(words_of(looped(2, 2, PipelineSchedule::dual_pipe_v, 1), 4),
           "u1 u2 R1.0 F1.0 R1.1 F2.0 R1.2 F1.1 F2.1 G2.0 F1.2 B2.0 g2.0 o2.0 F2.2 B1.0 g1.0 o1.0 R1.3 G2.1 F1.3 B2.1 "
           "g2.1 o2.1 F2.3 B1.1 g1.1 o1.1 G2.2 B2.2 g2.2 o2.2 B1.2 g1.2 o1.2 G2.3 I2.3 I1.3 W2.3 g2.3 o2.3 e2 s2 W1.3 "
           "g1.3 o1.3 e1 s1 r1.0 r1.1 r1.2 r1.3");
  CHECK_EQ(stages_of_rank(looped(4, 2, PipelineSchedule::zbv, 1)), std::vector<std::int64_t>{1, 6});
  CHECK_EQ(stages_of_rank(looped(4, 2, PipelineSchedule::interleaved_1f1b, 1)), std::vector<std::int64_t>{1, 5});
  CHECK_THROWS_WITH_AS(pipeline_actions(looped(2, 2, PipelineSchedule::dual_pipe_v), 3),
                       doctest::Contains("but got 3 microbatches and 4 stages"), Error);
}

TEST_CASE("of more stages than three FSDP2 has three at a time") {
  // _PipelineScheduleRuntime's max_active_stages
  std::int64_t active = 0, most = 0;
  for (const PipelineAction& a : pipeline_actions(looped(2, 5, PipelineSchedule::interleaved_1f1b), 4)) {
    if (a.kind == PipelineAction::Kind::unshard) most = std::max(most, ++active);
    if (a.kind == PipelineAction::Kind::reshard) --active;
  }
  CHECK_EQ(most, 3);
  CHECK_EQ(active, 0);
}

TEST_CASE("numbers of micro-batches that interleaved 1F1B refuses are refused in its words") {
  const auto actions = [](std::int64_t micro_batches) {
    return pipeline_actions(looped(2, 2, PipelineSchedule::interleaved_1f1b), micro_batches);
  };
  CHECK_THROWS_WITH_AS(actions(7), doctest::Contains("multiple of the number of rounds (3), but got 7."), Error);
  try {
    actions(7);
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("9") == std::string::npos);  // which has four rounds, and is refused, too
  }
  for (const std::int64_t micro_batches : {1, 2, 3, 6, 8}) CHECK_NOTHROW(actions(micro_batches));
  CHECK_NOTHROW(pipeline_actions(looped(2, 2, PipelineSchedule::looped_bfs), 7));
}

TEST_CASE("with so many stages a rank the bubble is so many times smaller") {
  // (v m + p - 1)(t_f + t_b) of stages: the bubble of arXiv:2104.04473, section 2.2.2, and of arXiv:2211.05953
  const std::vector<StageSeconds> stages(8, {.forward = 1, .backward = 2});
  const std::vector<double> after(4, 0);
  for (const PipelineSchedule schedule : {PipelineSchedule::interleaved_1f1b, PipelineSchedule::looped_bfs})
    CHECK(pipelined_seconds(stages, after, looped(4, 2, schedule), 8) == doctest::Approx((2 * 8 + 4 - 1) * 3.0));
}

TEST_CASE("with gradients of weights apart less is waited for") {
  // 1 for a forward, and for each part of a backward; the first stage computes both at once.
  std::vector<StageSeconds> stages(8, {.forward = 1, .backward = 1, .weight = 1});
  stages.front() = {.forward = 1, .backward = 2};
  const std::vector<StageSeconds> whole(8, {.forward = 1, .backward = 2});
  const std::vector<double> after(4, 0);
  const double split = pipelined_seconds(stages, after, looped(4, 2, PipelineSchedule::interleaved_zero_bubble), 8);
  CHECK_LT(split, pipelined_seconds(whole, after, looped(4, 2, PipelineSchedule::interleaved_1f1b), 8));
  CHECK_GE(split, 2 * 8 * 3);
}

TEST_CASE("a rank's graph has what its stages have") {
  const Plan joined = plan_of(looped(3, 2, PipelineSchedule::interleaved_1f1b, 1));
  const RankStep& step = joined.step;
  REQUIRE_EQ(step.stages.size(), 2);
  REQUIRE_EQ(step.joined.size(), 2);
  CHECK_EQ(step.stages[0].number, 1);
  CHECK_EQ(step.stages[1].number, 4);
  std::size_t parameters = 0, steps = 0;
  for (const RankStep& stage : step.joined) {
    parameters += stage.graph.parameters.size();
    steps += stage.schedule().ops.size();
  }
  CHECK_EQ(step.graph.parameters.size(), parameters);
  CHECK_EQ(step.schedule().ops.size(), steps);
  CHECK_EQ(step.schedule().with_gradient.size(), parameters);
  for (std::size_t p = 0; p < parameters; ++p) {
    const ParameterTensor& parameter = step.graph.parameters[p];
    CHECK_EQ(step.schedule().with_gradient[p], static_cast<std::int32_t>(p));
    CHECK_EQ(step.schedule().buffers[index(step.schedule().gradient_of[p])].bytes,
             step.graph.buffers[index(buffer_of(step.graph, parameter.tensor))].bytes);
    const bool of_second = p >= step.joined[0].graph.parameters.size();
    const std::string block = of_second ? "model.layers.4." : "model.layers.1.";
    CHECK(step.graph.layers[index(parameter.layer)].name.starts_with(block));
  }
  // Forward of both, then backward of both in reverse: each step is one stage's.
  std::vector<char> of_stage(step.schedule().ops.size(), 0);
  for (const RankStage& stage : step.stages)
    for (const Range r : stage.passes.front().steps)
      for (std::int32_t i = r.begin; i < r.end; ++i) ++of_stage[index(i)];
  CHECK_EQ(std::ranges::count(of_stage, 1), static_cast<std::ptrdiff_t>(steps));
}

TEST_CASE("checkpoints are refused where backward is split") {
  const auto plan = [](CheckpointConfig::Kind kind) {
    RunOptions options;
    options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/llama.json";
    options.seq = "128";
    RunConfig run;
    run.batch = run.micro_batches = 4;
    run.checkpoint.kind = kind;
    const Strategy strategy = looped(3, 2, PipelineSchedule::interleaved_zero_bubble);
    return make_plan(load_model(options), make_catalog(), run, nullptr, strategy).step.stages.size();
  };
  CHECK_EQ(plan(CheckpointConfig::Kind::none), 2);
  CHECK_THROWS_WITH_AS(plan(CheckpointConfig::Kind::block), doctest::Contains("not planned"), Error);
  CHECK_THROWS_WITH_AS(plan(CheckpointConfig::Kind::op), doctest::Contains("backward an extra time"), Error);
}

TEST_CASE("one stage a rank is the same stage under either schedule") {
  const Plan one = plan_of(looped(3, 1, PipelineSchedule::one_f_one_b, 1));
  const Plan same = plan_of(looped(3, 1, PipelineSchedule::interleaved_1f1b, 1));
  CHECK(same.step.joined.empty());
  CHECK_EQ(one.step.graph.parameters.size(), same.step.graph.parameters.size());
  CHECK_EQ(one.step.schedule().ops.size(), same.step.schedule().ops.size());
}

}  // namespace
}  // namespace gpuplan
