#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/device/gpu.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tests/bench/gpu/gpu_benchmarks.h"
#include "tools/process/read_source.h"
#include "validate/calibration/calibration.h"
#include "validate/validation.h"

namespace gpuplan {
namespace {

struct StepCase {
  const char* model;
  std::int64_t batch;
  OptimizerKind optimizer;
  bool autocast;
};

// The median of the settled steps, once the plan has run a few times: one iteration.
void run(benchmark::State& state, BenchmarkedGpu& benchmarked, const StepCase& c) try {
  Device& device = benchmarked.device;
  const Model model = read_model(read_zoo_source(c.model), {});
  RunConfig run;
  run.batch = c.batch;
  run.optimizer.kind = c.optimizer;
  if (c.autocast) run.autocast = DType::bf16;
  const Gpu gpu = describe_gpu(device, {});
  for (auto _ : state) {
    const Validation v = validate(device, model, make_catalog(), run, gpu,
                                  {.steps = benchmarked.computes ? 12 : 3, .computes = benchmarked.computes});
    device.release_all();
    if (!benchmarked.computes) return state.SkipWithError(kTimesNeedAGpu);
    std::vector<double> times = v.times ? v.times->steps_ms : std::vector<double>();
    if (times.empty()) return state.SkipWithError(v.ran_out ? "too little memory" : "no step was timed");
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    state.SetIterationTime(times[times.size() / 2] / 1000);
  }
  state.SetItemsProcessed(state.iterations() * c.batch);
} catch (const Error& e) {
  ++benchmarked.failures;  // that memory runs out is no Error but a result
  state.SkipWithError(e.message().c_str());
}

}  // namespace

void register_steps(BenchmarkedGpu& gpu) {
  for (const StepCase& c :
       {StepCase{"resnet50", 64, OptimizerKind::sgd, false}, StepCase{"resnet50", 64, OptimizerKind::sgd, true},
        StepCase{"gpt2", 8, OptimizerKind::adamw, false}, StepCase{"gpt2", 8, OptimizerKind::adamw, true}}) {
    const std::string name =
        "step/" + std::string(c.model) + "/" + std::to_string(c.batch) + (c.autocast ? "/amp-bf16" : "/fp32");
    benchmark::RegisterBenchmark(name.c_str(), [&gpu, c](benchmark::State& state) { run(state, gpu, c); })
        ->UseManualTime()
        ->Iterations(1)
        ->Repetitions(3)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace gpuplan
