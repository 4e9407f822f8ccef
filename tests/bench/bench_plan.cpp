// How long plans take. The guards are ratios between benchmarks of one run, so that they hold on any machine:
//   a ResNet-50 step against a fixed piece of work (sorting), time a layer at 100,000 layers against 10,000, of which
//   neither fits a cache, what a search or a sweep asks of a step against its plan, a point of a sweep against what it
//   prints, a fit on all GPUs against that many plans, and a plan's upper bound against the plan.
// What they measured, before and after changes that were made for speed: RESULTS.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "estimator/plan/at_most.h"
#include "estimator/plan/plan.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/figures.h"
#include "estimator/search/fit.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/answers/sweep_points.h"
#include "tools/options/run_options.h"
#include "tools/options/swept_flags.h"

namespace {

using namespace gpuplan;

std::shared_ptr<const Source> zoo(const std::string& name) {
  std::ifstream in(std::string(GPUPLAN_SOURCE_DIR) + "/configs/models/" + name + ".yaml");
  std::ostringstream text;
  text << in.rdbuf();
  auto source = std::make_shared<Source>();
  source->name = name;
  source->text = text.str();
  return source;
}

RunConfig adam(std::int64_t batch) {
  RunConfig run;
  run.batch = batch;
  run.optimizer.kind = OptimizerKind::adam;
  return run;
}

void sorting(benchmark::State& state) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> numbers(10'000);
  for (auto& n : numbers) n = static_cast<std::uint32_t>(random());
  for (auto _ : state) {
    auto copy = numbers;
    std::ranges::sort(copy);
    benchmark::DoNotOptimize(copy.data());
  }
}
BENCHMARK(sorting)->Unit(benchmark::kMicrosecond);

void plan_zoo(benchmark::State& state, const char* name) {
  const Model model = read_model(zoo(name), {});
  const RunConfig run = adam(64);
  for (auto _ : state) benchmark::DoNotOptimize(plan(model, make_catalog(), run));
}
BENCHMARK_CAPTURE(plan_zoo, resnet50, "resnet50")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan_zoo, densenet121, "densenet121")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan_zoo, mlp, "mlp")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan_zoo, gpt2, "gpt2")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan_zoo, llama3_70b, "llama3_70b")->Unit(benchmark::kMicrosecond);

void read_zoo(benchmark::State& state, const char* name) {
  const auto source = zoo(name);
  for (auto _ : state) benchmark::DoNotOptimize(read_model(source, {}));
}
BENCHMARK_CAPTURE(read_zoo, resnet50, "resnet50")->Unit(benchmark::kMicrosecond);

// A plan none of whose workspaces was recorded, on a GPU that nothing was recorded on, and its upper bound alone.
Gpu unrecorded_gpu() { return *gpu_called("l4"); }

void plan_unrecorded(benchmark::State& state, const char* name) {
  const Model model = read_model(zoo(name), {});
  const RunConfig run = adam(20);
  const Gpu gpu = unrecorded_gpu();
  for (auto _ : state) benchmark::DoNotOptimize(plan(model, make_catalog(), run, &gpu));
}
BENCHMARK_CAPTURE(plan_unrecorded, resnet50, "resnet50")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(plan_unrecorded, densenet121, "densenet121")->Unit(benchmark::kMicrosecond);

void bound_unrecorded(benchmark::State& state, const char* name) {
  const Model model = read_model(zoo(name), {});
  const RunConfig run = adam(20);
  const Gpu gpu = unrecorded_gpu();
  const Plan planned = make_plan(model, make_catalog(), run, &gpu);
  const Report report = report_of(planned);
  for (auto _ : state) benchmark::DoNotOptimize(at_most(planned, report));
}
BENCHMARK_CAPTURE(bound_unrecorded, resnet50, "resnet50")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(bound_unrecorded, densenet121, "densenet121")->Unit(benchmark::kMicrosecond);

void plan_deep(benchmark::State& state) {
  auto source = std::make_shared<Source>();
  source->name = "deep";
  source->text =
      "gpuplan: 1\nname: deep\ninput: {shape: [64]}\nblocks:\n  B:\n    layers:\n      - Linear(64, 64)\n      - "
      "ReLU()\n"
      "layers:\n  - l: {block: B, repeat: " +
      std::to_string(state.range(0) / 2) + "}\nloss: CrossEntropyLoss()\n";
  const Model model = read_model(source, {});
  const RunConfig run = adam(32);
  for (auto _ : state) benchmark::DoNotOptimize(plan(model, make_catalog(), run));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(plan_deep)->RangeMultiplier(10)->Range(100, 100'000)->Unit(benchmark::kMicrosecond)->Complexity();

// What a search asks of a step, and nothing else of its plan.
void reserve_zoo(benchmark::State& state) {
  const Model model = read_model(zoo("resnet50"), {});
  const RunConfig run = adam(64);
  const Gpu gpu = assumed_gpu();
  for (auto _ : state) benchmark::DoNotOptimize(reserved_bytes(make_plan(model, make_catalog(), run, &gpu)));
}
BENCHMARK(reserve_zoo)->Unit(benchmark::kMicrosecond);

// What a sweep prints of it.
void figures_zoo(benchmark::State& state) {
  const Model model = read_model(zoo("resnet50"), {});
  const RunConfig run = adam(64);
  for (auto _ : state) benchmark::DoNotOptimize(figures_of(make_plan(model, make_catalog(), run)));
}
BENCHMARK(figures_zoo)->Unit(benchmark::kMicrosecond);

// A point of `gpuplan sweep zoo:resnet50 --opt adam --over batch=64`, with its options read and its row filled.
void sweep_point(benchmark::State& state) {
  RunOptions base;
  base.model = "zoo:resnet50";
  base.optimizer = "adam";
  SweepPoints points(base, {read_swept_flag("batch=64")});
  for (auto _ : state) benchmark::DoNotOptimize(points.plan_point(0));
}
BENCHMARK(sweep_point)->Unit(benchmark::kMicrosecond);

// The largest batch of each GPU of the table, on one thread: `gpuplan fit zoo:resnet50 --opt adam`.
void fit_all_gpus(benchmark::State& state) {
  const Model model = read_model(zoo("resnet50"), {});
  const std::vector<Gpu> gpus = gpu_table();
  FitQuestion question;
  question.run = adam(1);
  for (auto _ : state) benchmark::DoNotOptimize(find_fit(model, make_catalog(), question, gpus, {}, 1));
  state.counters["gpus"] = static_cast<double>(gpus.size());
}
BENCHMARK(fit_all_gpus)->Unit(benchmark::kMillisecond);

// Keeps what was measured, so that main can compare it.
class Collector : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& r : runs)
      if (r.run_type == Run::RT_Iteration)
        microseconds[r.benchmark_name()] = r.cpu_accumulated_time / static_cast<double>(r.iterations) * 1e6;
    ConsoleReporter::ReportRuns(runs);
  }
  std::map<std::string, double> microseconds;
};

bool guard(const std::string& what, double ratio, double limit) {
  const bool ok = ratio <= limit;
  std::printf("%s %s: ratio %.2f, limit %.2f\n", ok ? "ok  " : "SLOW", what.c_str(), ratio, limit);
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  auto& t = collector.microseconds;
  if (t.count("sorting") == 0 || t.count("plan_deep/100000") == 0) return 0;  // a filter was given
  bool ok = guard("ResNet-50 step against sorting 10,000 numbers", t["plan_zoo/resnet50"] / t["sorting"], 1.5);
  ok = guard("time a layer, 100,000 against 10,000 layers", t["plan_deep/100000"] / 10 / t["plan_deep/10000"], 3.0) &&
       ok;
  ok = guard("what a search asks of a step, against its plan", t["reserve_zoo"] / t["plan_zoo/resnet50"], 1.0) && ok;
  ok = guard("what a sweep asks of a step, against its plan", t["figures_zoo"] / t["plan_zoo/resnet50"], 1.0) && ok;
  ok = guard("a point of a sweep, against what it prints", t["sweep_point"] / t["figures_zoo"], 1.25) && ok;
  for (const std::string name : {"resnet50", "densenet121"})
    ok = guard("the upper bound of " + name + ", against its plan",
               t["bound_unrecorded/" + name] / t["plan_unrecorded/" + name], 0.1) &&
         ok;
  // Some six plans for each GPU, and no more than eight.
  const double plans = t["fit_all_gpus"] / t["reserve_zoo"] / static_cast<double>(gpu_table().size());
  ok = guard("plans for each GPU of a fit", plans, 8.0) && ok;
  return ok ? 0 : 1;
}
