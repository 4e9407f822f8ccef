// A sweep's figures are those of a plan, whatever is swept.
#include <doctest/doctest.h>

#include <array>
#include <map>

#include "estimator/base/error.h"
#include "estimator/plan/plan.h"
#include "estimator/search/figures.h"
#include "layers/catalog.h"
#include "tests/support/model_time.h"
#include "tests/support/zoo_models.h"
#include "tools/answers/sweep_points.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

namespace {

// Each by itself: the figures and warnings, or why there are none.
struct Outcome {
  SweepFigures figures;
  std::vector<std::string> warnings;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

template <class Plan>
Outcome outcome(Plan plan) {
  Outcome o;
  try {
    plan(o);
  } catch (const Error& error) {
    o.error = error.message();
  }
  return o;
}

void check_alike(const Model& model, const RunConfig& run, const Gpu* gpu) {
  const Outcome whole = outcome([&](Outcome& o) {
    const Report report = plan(model, make_catalog(), run, gpu);
    o.figures = sweep_figures(report);
    o.warnings = report.warnings;
  });
  const Outcome alone = outcome([&](Outcome& o) {
    PlannedFigures planned = figures_of(make_plan(model, make_catalog(), run, gpu));
    o.figures = planned.figures;
    o.warnings = planned.warnings;
  });
  INFO(model.name << " batch " << run.batch << " on " << (gpu == nullptr ? "nothing" : gpu->name));
  CHECK_EQ(whole.error, alone.error);
  CHECK(whole == alone);
}

std::vector<RunConfig> runs() {
  std::vector<RunConfig> list;
  for (const std::int64_t batch : {1, 2, 7, 64, 250}) {
    RunConfig run;
    run.batch = batch;
    run.optimizer.kind = OptimizerKind::adam;
    list.push_back(run);
  }
  const auto add = [&](auto change) {
    RunConfig run = list[3];
    change(run);
    list.push_back(run);
  };
  add([](RunConfig& r) { r.autocast = DType::fp16; });
  add([](RunConfig& r) { r.autocast = DType::bf16; });
  add([](RunConfig& r) { r.precision = DType::bf16; });
  add([](RunConfig& r) { r.precision = DType::fp64; });
  add([](RunConfig& r) { r.micro_batches = 4; });
  add([](RunConfig& r) { r.micro_batches = 3; });  // does not split 64
  add([](RunConfig& r) { r.optimizer = {}; });
  add([](RunConfig& r) { r.first_step = true; });
  add([](RunConfig& r) { r.loop = Loop::loss_only; });
  add([](RunConfig& r) { r.scratch = Scratch::none; });
  add([](RunConfig& r) { r.allocator = AllocatorKind::exact; });
  add([](RunConfig& r) { r.allocator = AllocatorKind::cuda_malloc; });
  add([](RunConfig& r) { r.alloc_conf = "expandable_segments:True"; });
  add([](RunConfig& r) { r.pytorch = 113; });
  add([](RunConfig& r) { r.layout = MemoryFormat::channels_last; });
  add([](RunConfig& r) { r.checkpoint.kind = CheckpointConfig::Kind::block; });
  add([](RunConfig& r) { r.offload_saved = true; });
  add([](RunConfig& r) { r.offload_optimizer = true; });
  add([](RunConfig& r) { r.optimizer_in_backward = true; });
  add([](RunConfig& r) { r.context_bytes = 1 << 30; });
  add([](RunConfig& r) { r.batch = 1'000'000'000; });
  add([](RunConfig& r) {
    r.mode = Mode::infer;
    r.loop = Loop::function;
  });
  return list;
}

}  // namespace

TEST_CASE("figures of a plan are those of its report, over a grid of runs, models and GPUs") {
  // The second of some is too small for some runs, which give their cache back, or do not run.
  const Gpu t4 = *gpu_called("t4"), h200 = *gpu_called("h200");
  Gpu small = *gpu_called("a100-40gb");
  small.cuda_total_bytes = std::int64_t{5} << 30;
  Gpu unknown = h200;
  unknown.memory_bytes = 0;
  const std::array<const Gpu*, 4> gpus = {nullptr, &t4, &small, &unknown};
  for (const char* name : {"resnet50", "mlp", "gpt2", "unet_small"}) {
    const Model model = zoo_model(name);
    for (const RunConfig& run : runs())
      for (const Gpu* gpu : gpus) check_alike(model, run, gpu);
  }
}

TEST_CASE("a batch within a few of the largest that fits is planned alike, retries and all") {
  const Gpu t4 = *gpu_called("t4");
  const Model model = zoo_model("resnet50");
  RunConfig run;
  run.optimizer.kind = OptimizerKind::adam;
  for (run.batch = 145; run.batch < 175; ++run.batch) check_alike(model, run, &t4);
}

TEST_CASE("a point of a sweep is timed where its GPU is a kind of GPU") {
  RunOptions base;
  base.model = "zoo:resnet18";
  base.batch = std::to_string(16);
  SweepPoints sweep(base, {read_swept_flag("gpu=t4,22 GiB,h200")});
  RunConfig run;
  run.batch = 16;
  const double seconds = step_time(zoo_model("resnet18"), make_catalog(), run, *gpu_called("t4"))->seconds();
  const SweepRow row = sweep.plan_point(0);
  REQUIRE(row.figures);
  CHECK_EQ(*row.figures->step_seconds, seconds);
  CHECK_EQ(*row.figures->samples_per_second, doctest::Approx(16 / seconds));
  CHECK_FALSE(sweep.plan_point(1).figures->step_seconds);
  REQUIRE_EQ(sweep.warnings().size(), 1);
  CHECK_EQ(sweep.warnings().begin()->first.find("--gpu is only a memory limit"), 0);
  // What copying the batch takes is swept, too.
  base.gpu = "t4";
  SweepPoints copies(base, {read_swept_flag("host-copy=pageable,none")});
  CHECK_GT(*copies.plan_point(0).figures->step_seconds, *copies.plan_point(1).figures->step_seconds);
}

TEST_CASE("points that are planned together are what each is by itself, on every GPU of the table") {
  std::string names;
  for (const std::string& name : gpu_names()) names += (names.empty() ? "" : ",") + name;
  for (const char* const model : {"zoo:resnet18", "zoo:gpt2_s256", "zoo:lstm_lm"}) {
    RunOptions base;
    base.model = model;
    SweepPoints sweep(base, {read_swept_flag("batch=4,400"), read_swept_flag("gpu=" + names),
                             read_swept_flag("precision=fp32,amp-bf16")});
    std::map<std::string, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < sweep.count(); ++i) groups[sweep.group_of(i)].push_back(i);
    CHECK_LT(groups.size(), sweep.count());
    const Model read = zoo_model(std::string(model).substr(4));
    for (const auto& group : groups) {
      for (const SweepRow& row : sweep.plan_points(group.second)) {
        RunConfig run;
        run.batch = std::stoll(row.values[0]);
        if (row.values[2] == "amp-bf16") run.autocast = DType::bf16;
        const Gpu gpu = *gpu_called(row.values[1]);
        const Outcome whole = outcome([&](Outcome& o) {
          o.figures = sweep_figures(plan(read, make_catalog(), run, &gpu));
          const std::optional<StepTime> time = step_time(read, make_catalog(), run, gpu);
          if (!time) return;
          o.figures.step_seconds = time->seconds();
          o.figures.samples_per_second = static_cast<double>(time->samples) / time->seconds();
        });
        INFO(model << " batch " << row.values[0] << " " << row.values[2] << " on " << gpu.name);
        CHECK_EQ(row.error, whole.error);
        if (row.figures) CHECK(*row.figures == whole.figures);
      }
    }
  }
}
