// How long a step takes on one of several GPUs: what is hidden, what is waited for, and what of the throughput is left.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/fsdp_units.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/transfers.h"
#include "estimator/graph/build.h"
#include "estimator/plan/plan.h"
#include "estimator/report/several_gpus.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"
#include "estimator/search/device_bytes.h"
#include "estimator/time/rank_time.h"
#include "estimator/time/slowest_gpu.h"
#include "layers/catalog.h"
#include "tests/support/json_schema.h"
#include "tests/support/model_time.h"
#include "tests/support/test_spec.h"
#include "tests/support/zoo_models.h"
#include "tests/times/time_cases.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

using testing::contains;

CommunicationRow row(double seconds, std::int64_t bytes, std::optional<Phase> beside = std::nullopt,
                     std::int64_t alone = 0) {
  CommunicationRow r;
  r.what = "gradients";
  r.bytes = bytes;
  r.seconds = seconds;
  r.beside = beside;
  r.alone_bytes = alone;
  return r;
}

StepTime step_of(double forward, double backward) {
  StepTime time;
  time.forward_seconds = forward;
  time.backward_seconds = backward;
  return time;
}

struct Case {
  Model model = zoo_model("resnet50");
  RunConfig run;
  Strategy strategy;
  Topology topology;

  Case(DataParallel data, std::int64_t gpus) {
    run.batch = 512;
    run.optimizer.kind = OptimizerKind::adam;
    strategy.data = data;
    strategy.gpus = gpus;
    topology.gpus_per_node = gpus;
    topology.within_node = Link{10e9, 0};
  }
  Report planned() const {
    const Plan of_rank = make_plan(model, make_catalog(), run, &gpu(), strategy, true);
    Report plan = report_of(of_rank, topology);
    plan.rank->time = rank_time(of_rank.step, plan.rank->communication, HostCopy::none);
    return plan;
  }
  static const Gpu& gpu() { return measured_gpu("a100-40gb"); }
};

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

TEST_CASE("what runs beside a phase is hidden by it, but for what comes before or after everything") {
  // 10 s, of which a tenth is alone. Backward of 6 s hides 6 of the 9 others; one of 20 s hides all of them.
  const std::vector<CommunicationRow> gradients = {row(10, 100, Phase::backward, 10)};
  CHECK_EQ(exposed_seconds(gradients, step_of(1, 6)).rows[0], doctest::Approx(4));
  CHECK_EQ(exposed_seconds(gradients, step_of(1, 20)).rows[0], doctest::Approx(1));
  // Nothing hides what the GPU waits for.
  CHECK_EQ(exposed_seconds({{row(3, 100)}}, step_of(100, 100)).rows[0], doctest::Approx(3));
}

TEST_CASE("a bucket goes when its gradients are there and the bucket before has gone") {
  // Steps 0 to 4, of which 1 to 4 are backward's and end 2, 3, 7 and 8 s after it began. A byte takes 0.1 s.
  const std::vector<StepWork> steps = {{0, 0}, {0, 2}, {0, 1}, {0, 4}, {0, 1}};
  const CommunicationRow gradients = row(10, 100);
  struct Bucket {
    std::int64_t bytes;
    std::int32_t after_step;
  };
  const auto waited = [&](const std::vector<Bucket>& buckets, double copy) {
    Overlap overlap{{}, steps, [=](std::int64_t) { return StepWork{0, copy}; }};
    for (const Bucket& b : buckets) {
      Transfer& send = overlap.transfers.emplace_back();
      send.row = kGradientsRow;
      send.step = b.after_step + 1;
      send.bytes = b.bytes;
      send.after_operations = true;
      send.copies = copy > 0 ? 1 : 0;
    }
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      Transfer& wait = overlap.transfers.emplace_back();
      wait.kind = Transfer::Kind::wait;
      wait.step = 5;
      wait.of = static_cast<std::int32_t>(b);
      wait.copies = copy > 0 ? 1 : 0;
    }
    return exposed_seconds({{gradients}}, step_of(1, 8), overlap);
  };
  // 2 + 3 = 5, max(5, 3) + 2 = 7, max(7, 8) + 5 = 13: 5 s after backward, its last bucket.
  CHECK_EQ(waited({{30, 1}, {20, 2}, {50, 4}}, 0).rows[0], doctest::Approx(5));
  // 2 + 6 = 8, 8 + 3 = 11, 11 + 1 = 12: the last waits for those before it.
  CHECK_EQ(waited({{60, 1}, {30, 3}, {10, 4}}, 0).rows[0], doctest::Approx(4));
  // One bucket, as large as all: nothing hides it, however long backward is.
  CHECK_EQ(waited({{100, 4}}, 0).rows[0], doctest::Approx(10));
  // Half a second to copy each bucket in and out. It is there after 2.5 + 3 = 5.5, 5.5 + 2 = 7.5 and, since backward
  // ends after 8 + 1.5, 9.5 + 5 = 14.5 s. The first two are copied out while the last one is on its way: all is done
  // after 15 s, and after 9.5 + 1.5 = 11 without the link.
  const Exposed copied = waited({{30, 1}, {20, 2}, {50, 4}}, 0.5);
  CHECK_EQ(copied.copy_seconds, doctest::Approx(3));
  CHECK_EQ(copied.rows[0], doctest::Approx(15 - 11));
}

TEST_CASE("a gather begins when the host calls it, the link is free and the copies before it are done") {
  // Three units, each gathered after the copies of the one but one before it.
  const CommunicationRow gathers = [] {
    CommunicationRow r = row(9, 90);
    r.what = kForwardGathersRow;
    return r;
  }();
  const auto waited = [&](double call, double run, double seconds) {
    CommunicationRow r = gathers;
    r.seconds = 3 * seconds;
    Overlap overlap{{}, {{call, run}, {call, run}, {call, run}}, {}};
    for (std::int32_t u = 0; u < 3; ++u) {
      Transfer& send = overlap.transfers.emplace_back();
      send.row = kForwardGathersRow;
      send.step = u;
      send.bytes = 30;
      if (u == 2) send.after_copy = 1;
      Transfer& wait = overlap.transfers.emplace_back();
      wait.kind = Transfer::Kind::wait;
      wait.step = u;
      wait.of = 2 * u;
    }
    return exposed_seconds({{r}}, step_of(3 * run, 0), overlap).rows[0];
  };
  CHECK_EQ(waited(0, 4, 3), doctest::Approx(3));  // the first; 3 s of each other are beside 4 s of computing
  CHECK_EQ(waited(0, 4, 5), doctest::Approx(5 + 1 + 1));
  // Nothing is computed beside them: 3 * 3 s, where the host alone would take 3.
  CHECK_EQ(waited(1, 0, 3), doctest::Approx(9 - 3));
}

TEST_CASE("a parameter without a gradient is an error of DDP's, unless it looks for such parameters") {
  const auto planned = [](const std::string& dead, bool looks, DataParallel data = DataParallel::ddp) {
    Case c(data, 4);
    c.strategy.find_unused_parameters = looks;
    c.model = testing::read_spec(testing::with_layers("  - a: Linear(4, 4)\n" + dead +
                                                      "  - {name: out, op: \"Linear(4, 4)\", from: a}\nloss: mean\n"));
    return c.planned();
  };
  const auto error = [&](const std::string& dead, DataParallel data = DataParallel::ddp) -> std::string {
    try {
      (void)planned(dead, false, data);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  const std::string dead = "  - dead: Linear(4, 9)\n";
  CHECK(contains(error(dead), "dead.weight and 1 more trained parameters get no gradient"));
  CHECK(contains(error("  - dead: Linear(4, 9, bias=False)\n"), "dead.weight, which is trained, gets no gradient"));
  CHECK(contains(error(dead, DataParallel::zero1), "dead.weight"));
  CHECK_EQ(error(dead, DataParallel::fsdp), "");
  CHECK_EQ(error("  - {name: dead, op: \"Linear(4, 9)\", frozen: true}\n"), "");
  CHECK_EQ(error(""), "");
  const Report plan = planned(dead, true);
  REQUIRE_EQ(plan.rank->communication.size(), 2);
  CHECK_EQ(plan.rank->communication[0].bytes,
           4 * (20 + 45 + 20));                        // all parameters' gradients, those that are zero too
  CHECK_EQ(plan.rank->communication[1].bytes, 4 * 6);  // an int32 of each parameter
}

TEST_CASE("gradients are reduced beside the last micro-batch's backward alone") {
  Case c(DataParallel::ddp, 8);
  c.run.micro_batches = 4;
  c.topology.within_node = Link{3e9, 0};  // 59.6 ms of gradients
  const Report plan = c.planned();
  REQUIRE(plan.rank->time);
  const RankStep of_rank = make_step(c.model, make_catalog(), c.run, Case::gpu(), c.strategy, true);
  const auto timed = timed_step(of_rank, {}, HostCopy::none, {});
  REQUIRE(timed);
  const Schedule& last = of_rank.micro_batches.schedules.back();
  REQUIRE_EQ(timed->last_micro_batch.size(), last.ops.size());
  double backward = 0;
  for (std::size_t i = 0; i < last.ops.size(); ++i)
    if (last.ops[i].phase == Phase::backward) backward += timed->last_micro_batch[i].run;
  CHECK_EQ(backward, doctest::Approx(timed->time.backward_seconds / 4).epsilon(0.05));
  const std::vector<GradientBucket> buckets = gradient_buckets(of_rank.graph, last, c.strategy);
  CHECK_GE(buckets.back().after_step, static_cast<std::int32_t>(last.ops.size()) - 5);
  // What the link takes longer than that one backward is waited for, and of the last bucket what the copies of the
  // others out of theirs do not hide.
  const double link = 1.75 * 25'557'032 * 4 / 3e9;
  CHECK_GE(plan.rank->time->exposed[1], link - timed->time.backward_seconds / 4 - plan.rank->time->copy_seconds);
  CHECK_GE(plan.rank->time->exposed[1],
           1.75 * static_cast<double>(buckets.back().bytes) / 3e9 - plan.rank->time->copy_seconds);
  CHECK_LT(plan.rank->time->exposed[1], link);
}

TEST_CASE("ZeRO-2 copies gradients into buckets, out of them and back, and waits for their all-reduce") {
  const Report plan = Case(DataParallel::zero2, 8).planned();
  REQUIRE(plan.rank->time);
  constexpr double kBytes = 25'557'032.0 * 4;
  CHECK_EQ(plan.rank->communication[0].collective, Collective::all_reduce);
  // Copied in, divided, made flat; an eighth of it out of the result and into the rank's own gradients.
  CHECK_EQ(plan.rank->communication[0].copied_bytes, 3 * 25'557'032 * 4 + 2 * (25'557'032 * 4 / 8));
  CHECK_EQ(plan.rank->communication[0].copies, 161 + 2);  // resnet50's parameters; one bucket
  CHECK_EQ(plan.rank->time->exposed[0], doctest::Approx(1.75 * kBytes / 10e9));
  // Read and written at the rate that the memory has at most, and a launch each: no less than that.
  CHECK_GT(plan.rank->time->copy_seconds, 2 * 3.25 * kBytes / 1555e9 + 163 * TimeModel{}.kernel_seconds);
  // No faster than DDP, whose buckets go while backward runs, by more than what the optimizer's share saves.
  const Report ddp = Case(DataParallel::ddp, 8).planned();
  CHECK_GT(plan.rank->time->step.seconds(), ddp.rank->time->step.seconds() - (ddp.rank->time->step.optimizer_seconds -
                                                                              plan.rank->time->step.optimizer_seconds));
}

TEST_CASE("rows beside the same phase share its time") {
  const std::vector<double> exposed =
      exposed_seconds({{row(4, 100, Phase::backward), row(5, 100, Phase::backward), row(2, 100, Phase::forward)}},
                      step_of(1, 6))
          .rows;
  CHECK_EQ(exposed[0], doctest::Approx(0));  // 4 of 6
  CHECK_EQ(exposed[1], doctest::Approx(3));  // 2 are left for 5
  CHECK_EQ(exposed[2], doctest::Approx(1));
}

TEST_CASE("communication is a row of the step, and the efficiency is what is left of the throughput") {
  const RankTime time = rank_time({{row(10, 100, Phase::backward, 10)}}, step_of(2, 6), 8);
  CHECK_EQ(time.step.communication_seconds, doctest::Approx(4));
  CHECK_EQ(time.step.seconds(), doctest::Approx(12));
  CHECK_EQ(time.efficiency(), doctest::Approx(8.0 / 12));
}

TEST_CASE("DDP sends its last bucket alone; buckets hold every gradient once") {
  const Case c(DataParallel::ddp, 8);
  RunConfig run = c.run;
  run.batch = 64;
  const Graph graph = build_graph(c.model, make_catalog(), run, Case::gpu());
  const Schedule schedule = make_schedule(graph, run, Case::gpu());
  const std::vector<GradientBucket> buckets = gradient_buckets(graph, schedule, c.strategy);
  std::int64_t bytes = 0;
  for (const GradientBucket& b : buckets) bytes += b.bytes;
  CHECK_EQ(bytes, 25'557'032 * 4);
  CHECK(std::ranges::is_sorted(buckets, {}, &GradientBucket::after_step));
  const Report plan = c.planned();
  REQUIRE_EQ(plan.rank->communication.size(), 2);
  REQUIRE(plan.rank->time);
  std::int32_t gradients = 0;
  for (const GradientBucket& b : buckets) gradients += b.gradients;
  CHECK_EQ(gradients, 161);  // resnet50's parameters
  // 2 * 7 / 8 of the bytes over 10 GB/s: 17.9 ms, which backward hides but for the last bucket, and of that what
  // copying out of the others takes; the buffers as they are.
  const double last = 1.75 * static_cast<double>(buckets.back().bytes) / 10e9;
  CHECK_LT(plan.rank->time->exposed[1], last);
  CHECK_GT(plan.rank->time->exposed[1], last - plan.rank->time->copy_seconds);
  // Every gradient is read and written twice, by a kernel of its own each time.
  const double copies = 161 * 2 * TimeModel{}.kernel_seconds;
  CHECK_GT(plan.rank->time->copy_seconds, copies);
  CHECK_EQ(plan.rank->time->exposed[0], doctest::Approx(*plan.rank->communication[0].seconds));
  const auto one = step_time(c.model, make_catalog(), run, Case::gpu(), HostCopy::none);
  CHECK_EQ(plan.rank->time->alone_seconds, doctest::Approx(one->seconds()));
  // What the clock limits takes as long as on the slowest of eight; what the host hides, or memory limits, does not.
  const double own = plan.rank->time->step.seconds() - plan.rank->time->copy_seconds - sum(plan.rank->time->exposed);
  CHECK_GT(own, one->seconds());
  CHECK_LE(own, one->seconds() * slowest_of(8, TimeModel{}.clock_spread));
  CHECK_LT(plan.rank->time->efficiency(), 1);
  Case view = c;
  view.strategy.gradient_as_bucket_view = true;
  CHECK_LT(view.planned().rank->time->copy_seconds, 0.6 * plan.rank->time->copy_seconds);  // into the buckets only
}

TEST_CASE("a link that is slower than backward shows") {
  Case c(DataParallel::ddp, 8);
  c.topology.within_node = Link{1e9, 0};  // 179 ms of gradients, more than backward
  const Report plan = c.planned();
  const StepTime& step = plan.rank->time->step;
  // The link is idle only until the first bucket's gradients, the last layer's, are there; copies into the other
  // buckets and out of them are beside it, too.
  const double waited = 1.75 * 25'557'032 * 4 / 1e9 - step.backward_seconds;
  CHECK_GT(plan.rank->time->exposed[1], waited - plan.rank->time->copy_seconds);
  CHECK_LT(plan.rank->time->exposed[1], waited + 0.02 * step.backward_seconds);
  c.topology.within_node.reset();
  CHECK_FALSE(c.planned().rank->time);
}

TEST_CASE("ranks that share the optimizer step a part of it") {
  const Report ddp = Case(DataParallel::ddp, 8).planned(), zero1 = Case(DataParallel::zero1, 8).planned(),
               zero3 = Case(DataParallel::zero3, 8).planned(), fsdp = Case(DataParallel::fsdp, 8).planned();
  for (const Report* plan : {&zero1, &zero3, &fsdp}) {
    REQUIRE(plan->rank->time);
    CHECK_LT(plan->rank->time->step.optimizer_seconds, ddp.rank->time->step.optimizer_seconds);
    CHECK_EQ(plan->rank->time->alone_seconds, doctest::Approx(ddp.rank->time->alone_seconds));
    CHECK_EQ(plan->rank->time->step.communication_seconds,
             doctest::Approx(sum(plan->rank->time->exposed) + plan->rank->time->copy_seconds));
  }
  // An eighth of everything, by DeepSpeed as by FSDP2, whose shards of a small tensor's rows differ a little.
  CHECK_EQ(zero3.rank->time->step.optimizer_seconds,
           doctest::Approx(fsdp.rank->time->step.optimizer_seconds).epsilon(0.01));
  // ZeroRedundancyOptimizer's parameters are waited for.
  CHECK_EQ(zero1.rank->time->exposed[2], doctest::Approx(25'557'032 * 4 / 10e9));
}

TEST_CASE("FSDP2 gathers each unit where the one before runs, and reduces it behind its backward") {
  Case c(DataParallel::fsdp, 8);
  RunConfig run = c.run;
  run.batch = 64;
  const CheckpointConfig wrapped = wrapped_blocks(c.strategy);
  const Graph graph = build_graph(c.model, make_catalog(), run, Case::gpu(), &wrapped);
  const Schedule schedule = make_schedule(graph, run, Case::gpu());
  const auto units = fsdp_units(graph, schedule, c.strategy);
  REQUIRE_EQ(units.size(), 17);  // the root and ResNet-50's 16 blocks
  const std::vector<Transfer> list = transfers(graph, schedule, units, c.strategy);
  std::int64_t forward = 0, backward = 0, reduced = 0;
  std::int32_t at = 0, begun = 0, waited = 0;
  for (const Transfer& t : list) {
    CHECK_GE(t.step, at);
    at = t.step;
    if (t.kind == Transfer::Kind::wait) {
      waited += 1;
      continue;
    }
    begun += 1;
    std::int64_t& bytes = t.row == kForwardGathersRow ? forward : t.row == kBackwardGathersRow ? backward : reduced;
    bytes += t.bytes;
  }
  CHECK_EQ(begun, 17 + 16 + 17);
  CHECK_EQ(waited, begun);
  const Report plan = c.planned();
  REQUIRE_EQ(plan.rank->communication.size(), 3);
  CHECK_EQ(forward, plan.rank->communication[0].bytes);
  CHECK_EQ(backward, plan.rank->communication[1].bytes);
  CHECK_EQ(reduced, plan.rank->communication[2].bytes);
  // The root, conv1, bn1 and fc, 9,408 + 128 + 2,049,000 of rows that are padded, is gathered before anything runs and
  // reduced last of all.
  for (const Transfer& t : {list.front(), list[list.size() - 2]}) {
    CHECK_GE(t.bytes, 4 * (9'408 + 128 + 2'049'000));
    CHECK_LE(t.bytes, 4 * 1.01 * (9'408 + 128 + 2'049'000));
  }
  CHECK_EQ(list[list.size() - 2].step, static_cast<std::int32_t>(schedule.ops.size()));
  // On a link that hides behind computing, the two are what is waited for.
  c.topology.within_node = Link{100e9, 0};
  const Report fast = c.planned();
  const double root = 7.0 / 8 * static_cast<double>(list.front().bytes) / 100e9;
  CHECK_EQ(fast.rank->time->exposed[0] + fast.rank->time->exposed[1] + fast.rank->time->exposed[2],
           doctest::Approx(2 * root).epsilon(0.1));
}

TEST_CASE("a rank's runtime has NCCL's buffers, which --runtime says too") {
  const auto nccl_of = [](std::int64_t gpus, std::int64_t tensor, std::int64_t pipeline) {
    Strategy s;
    s.gpus = gpus, s.tensor = tensor, s.pipeline = pipeline;
    return nccl_buffers(s, *gpu_called("a100-80gb"), 206).planned >> 20;
  };
  CHECK_EQ(nccl_of(1, 1, 1), 0);
  CHECK_EQ(nccl_of(2, 1, 1), 544);
  CHECK_EQ(nccl_of(8, 1, 1), 688);
  CHECK_EQ(nccl_of(8, 2, 2), 544 + 544 + 384);  // of data, tensor and pipeline parallelism
  Case c(DataParallel::ddp, 8);
  const Report plan = c.planned();
  CHECK_EQ(plan.rank->nccl.planned, std::int64_t{288} << 20);
  CHECK_EQ(plan.peak.context_bytes, context_bytes(c.run, Case::gpu(), plan.rank->strategy));
  CHECK_EQ(plan.peak.device_bytes, plan.peak.reading.reserved_bytes + plan.peak.context_bytes);
  CHECK(contains(several_gpus_text(plan, {}), "288 MiB of buffers"));
  c.run.context_bytes = 300;
  CHECK_EQ(c.planned().peak.context_bytes, 300);
  CHECK_EQ(c.planned().rank->nccl.planned, 0);
}

TEST_CASE("the screen and the JSON say what is waited for and what is left") {
  Report plan = Case(DataParallel::ddp, 8).planned();
  tell_time(plan.rank->time->step, plan);
  const std::string text = several_gpus_text(plan, {});
  CHECK(contains(text, "scaling efficiency"));
  CHECK(contains(text, "exposed"));
  CHECK(contains(report_text(plan, {}), "communication "));
  const nlohmann::json json = nlohmann::json::parse(several_gpus_json(plan, "1"));
  tests::check_against(nlohmann::json::parse(plan_json_schema()), json, "plan");
  CHECK_EQ(json["parallel"]["time"]["samples_per_second"].get<double>(),
           doctest::Approx(512 / plan.rank->time->step.seconds()).epsilon(1e-4));
  CHECK_EQ(json["time"]["communication_seconds"].get<double>(),
           doctest::Approx(plan.rank->time->step.communication_seconds).epsilon(1e-4));
  plan.rank->time.reset();
  CHECK(nlohmann::json::parse(several_gpus_json(plan, "1"))["parallel"]["time"].is_null());
}

}  // namespace gpuplan
