// Llama 3.1 8B as torchtitan trained it in December 2024, on 8 and 128 ranks, beside
// tests/shadow_scripts/fsdp2_llama.py.
#include <doctest/doctest.h>

#include <cmath>

#include "estimator/device/find_gpu.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

namespace {

Plan torchtitan_plan(PyTorchVersion pytorch, std::int64_t ranks, std::string alloc_conf) {
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/torchtitan_llama3_8b.yaml";
  const Model model = load_model(options);
  const Gpu gpu = *gpu_called("h200");  // their H100s had 96 GB
  RunConfig run;
  run.batch = 2 * ranks;
  run.pytorch = pytorch;
  run.optimizer.kind = OptimizerKind::adamw;
  run.clip_grad_norm = true;
  run.loop = Loop::loss_only;
  run.alloc_conf = std::move(alloc_conf);
  run.checkpoint.kind = CheckpointConfig::Kind::op;
  Strategy strategy;
  strategy.data = DataParallel::fsdp;
  strategy.gpus = ranks;
  strategy.param_type = DType::bf16;
  strategy.reduce_type = DType::fp32;
  strategy.keeps_last_block = true;
  strategy.reshards_root = pytorch >= 208;  // before, fully_shard's root stayed whatever was said
  return make_plan(model, make_catalog(), run, &gpu, strategy);
}

}  // namespace

TEST_CASE("a step of torchtitan's Llama 3.1 8B reserves what the script reserved under gpuplan shadow") {
  // Step 3 of fsdp2_llama.py on rank 0, expandable segments, PyTorch 2.15 and 2.8.
  struct Recorded {
    PyTorchVersion pytorch;
    std::int64_t ranks, allocated, reserved;  // peaks
  };
  constexpr Recorded kRecorded[] = {{215, 8, 67'230'195'712, 80'889'249'792},
                                    {215, 128, 55'937'715'712, 65'601'011'712},
                                    {208, 8, 71'659'413'504, 85'419'098'112},
                                    {208, 128, 60'366'933'504, 70'193'774'592}};
  constexpr std::int64_t kPage = 2 << 20;  // of an expandable segment
  for (const Recorded& r : kRecorded) {
    CAPTURE(r.pytorch);
    CAPTURE(r.ranks);
    const Plan plan = torchtitan_plan(r.pytorch, r.ranks, "expandable_segments:True");
    CHECK_LE(std::abs(plan.replay.peak.reserved_bytes - r.reserved), kPage);
    CHECK_LE(std::abs(plan.replay.peak.allocated_bytes - r.allocated), kPage);
  }
}

TEST_CASE("a step of torchtitan's Llama 3.1 8B reserves what 8 and 128 H100s reserved") {
  // pytorch/torchtitan, its note on Llama 3 and H100s of December 2024, tables 1 and 3: GiB of a nightly of 2024-12-23,
  // between 2.6 and 2.7. allocated: train.py of that commit under `gpuplan shadow` with 2.7.0,
  // tests/shadow_scripts/README.md.
  struct Measured {
    std::int64_t ranks;
    double reserved_gib;
    std::int64_t allocated;
  };
  constexpr Measured kMeasured[] = {{8, 82.4, 73'760'771'584}, {128, 67.0, 62'478'842'880}};
  for (const Measured& m : kMeasured) {
    CAPTURE(m.ranks);
    const Plan plan = torchtitan_plan(207, m.ranks, "");
    const double gib = static_cast<double>(plan.replay.peak.reserved_bytes) / (1 << 30);
    CHECK_LE(std::abs(gib / m.reserved_gib - 1), 0.01);
    CHECK_LE(std::abs(plan.replay.peak.allocated_bytes - m.allocated), m.allocated / 10'000);
  }
}
