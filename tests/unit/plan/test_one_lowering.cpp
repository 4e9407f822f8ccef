// A model is lowered once for each step that differs: what a plan says beside its bytes is read off the same graph.
#include <doctest/doctest.h>

#include <set>
#include <tuple>
#include <vector>

#include "estimator/plan/plan.h"
#include "estimator/search/figures.h"
#include "estimator/search/fit.h"
#include "estimator/search/speed_advice.h"
#include "estimator/search/throughput.h"
#include "estimator/time/rank_time.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tests/host_device/clock_device.h"
#include "tests/support/test_spec.h"
#include "tools/options/run_options.h"
#include "validate/validation.h"

namespace {

using namespace gpuplan;

constexpr const char* kCounted = R"(gpuplan: 1
name: counted
input: {shape: [16]}
layers:
  - Flatten()
  - Linear(16, 4)
)";

// What Flatten() was lowered for: batch, compute capability.
using Lowering = std::tuple<std::int64_t, int, int>;
std::vector<Lowering>& lowerings() {
  static std::vector<Lowering> all;
  return all;
}

// The catalog with a Flatten() that counts.
Catalog counting_catalog() {
  static const LayerDef* const original = find_layer(make_catalog(), "Flatten");
  static const LayerDef counted = [] {
    LayerDef def = *original;
    def.lower = [](LayerBuilder& b) {
      lowerings().emplace_back(b.run().batch, b.gpu().capability_major, b.gpu().capability_minor);
      original->lower(b);
    };
    return def;
  }();
  static const std::vector<const LayerDef*> all = [] {
    const Catalog catalog = make_catalog();
    std::vector<const LayerDef*> copy(catalog.begin(), catalog.end());
    for (const LayerDef*& def : copy)
      if (def == original) def = &counted;
    return copy;
  }();
  return all;
}

Model counted_model() { return testing::read_spec(kCounted); }

template <typename Work>
std::vector<Lowering> lowered_by(Work&& work) {
  lowerings().clear();
  work();
  return lowerings();
}

RunConfig training(std::int64_t batch) {
  RunConfig run;
  run.batch = batch;
  run.optimizer.kind = OptimizerKind::adam;
  return run;
}

}  // namespace

TEST_CASE("a plan lowers its model once, with a GPU, its time and its bound, too") {
  const Model model = counted_model();
  const Gpu gpu = *gpu_called("a100-40gb");
  CHECK_EQ(lowered_by([&] { (void)plan(model, counting_catalog(), training(8)); }).size(), 1);
  const auto with_time = lowered_by([&] {
    const Plan planned = make_plan(model, counting_catalog(), training(8), &gpu, {}, true);
    REQUIRE(report_of(planned).at_most);
    REQUIRE(step_time(planned.step));
  });
  CHECK_EQ(with_time.size(), 1);
}

TEST_CASE("a rank of several GPUs is lowered once") {
  const Model model = counted_model();
  const Gpu gpu = *gpu_called("a100-40gb");
  for (const DataParallel kind : {DataParallel::ddp, DataParallel::zero1, DataParallel::zero3, DataParallel::fsdp}) {
    CAPTURE(static_cast<int>(kind));
    Strategy strategy;
    strategy.data = kind;
    strategy.gpus = 2;
    Topology topology;
    topology.within_node = Link{10e9, 0};
    const auto all = lowered_by([&] {
      const Plan planned = make_plan(model, counting_catalog(), training(8), &gpu, strategy, true);
      REQUIRE(rank_time(planned.step, report_of(planned, topology).rank->communication, HostCopy::none));
    });
    CHECK_EQ(all.size(), 1);
  }
}

TEST_CASE("a validation lowers its model once") {
  const Model model = counted_model();
  ClockDevice device;
  const auto all =
      lowered_by([&] { (void)validate(device, model, counting_catalog(), training(8), assumed_gpu(), {}); });
  CHECK_EQ(all.size(), 1);
}

TEST_CASE("a fit lowers each batch once for GPUs that reserve alike") {
  const Model model = counted_model();
  FitQuestion question;
  question.run = training(1);
  question.most = 64;
  const std::vector<Gpu> gpus = {*gpu_called("a100-40gb"), *gpu_called("a100-80gb"), *gpu_called("t4")};
  const auto all = lowered_by([&] { (void)find_fit(model, counting_catalog(), question, gpus, {}, 1); });
  CHECK_GT(all.size(), 1);
  CHECK_EQ(std::set<Lowering>(all.begin(), all.end()).size(), all.size());
}

TEST_CASE("a fit lowers each GPU's step once more for its time, and no time for each offer") {
  const Model model = counted_model();
  FitQuestion question;
  question.run = training(8);
  question.batch = 8;
  question.gpus = {2};
  const std::vector<Gpu> gpus = {*gpu_called("a100-40gb")};
  Instance alone;
  alone.provider = "x";
  alone.name = "alone";
  alone.gpu = "a100-40gb";
  alone.gpu_count = 1;
  alone.usd = 1;
  alone.network_gbps = 100;
  Instance pair = alone;
  pair.name = "pair";
  pair.gpu_count = 2;
  pair.usd = 3;
  const auto lowered = [&](const ThroughputOf& throughput) {
    return lowered_by([&] {
      const Fit fit = find_fit(model, counting_catalog(), question, gpus, std::vector{alone, pair}, 1, throughput);
      REQUIRE(fit.rows.front().fits);
    });
  };
  const ThroughputOf throughput = [&](const RunConfig& run, const Gpu& gpu, const Strategy& strategy) {
    return throughput_of(model, counting_catalog(), run, gpu, strategy, HostCopy::none);
  };
  CHECK_EQ(lowered(throughput).size(), lowered({}).size() + 1);
}

TEST_CASE("what would make a step faster is asked of the step that is planned") {
  const Model model = counted_model();
  const Gpu gpu = *gpu_called("a100-40gb");
  RunConfig run = training(8);
  const Plan planned = make_plan(model, counting_catalog(), run, &gpu, {}, true);
  const auto now = step_time(planned.step, HostCopy::none);
  REQUIRE(now);
  const auto all = lowered_by([&] { (void)speed_advice(planned, counting_catalog(), HostCopy::none, *now); });
  // TF32, bf16, channels_last and a batch twice as large: each is another graph.
  CHECK_EQ(all.size(), 4);
}

TEST_CASE("a point of a sweep is lowered once, its time on every GPU that reserves alike with it") {
  const Model model = counted_model();
  const auto all = lowered_by([&] {
    const Gpu first = *gpu_called("a100-40gb");
    Plan plan = make_plan(model, counting_catalog(), training(8), &first, {}, true);
    for (const char* name : {"a100-40gb", "a100-80gb"}) {
      const Gpu gpu = *gpu_called(name);
      plan.move_to(&gpu);
      (void)figures_of(plan);
      REQUIRE(step_time(plan.step, HostCopy::none));
    }
  });
  CHECK_EQ(all.size(), 1);
}
