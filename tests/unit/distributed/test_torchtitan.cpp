// Llama 3.1 8B as torchtitan trained it in December 2024, on 8 and 128 ranks, beside
// tests/shadow_scripts/fsdp2_llama.py.
#include <doctest/doctest.h>

#include <cmath>

#include "estimator/device/find_gpu.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

using namespace gpuplan;

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
  RunOptions options;
  options.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/torchtitan_llama3_8b.yaml";
  const Model model = load_model(options);
  const Gpu gpu = *gpu_called("h100");
  for (const Recorded& r : kRecorded) {
    CAPTURE(r.pytorch);
    CAPTURE(r.ranks);
    RunConfig run;
    run.batch = 2 * r.ranks;
    run.pytorch = r.pytorch;
    run.optimizer.kind = OptimizerKind::adamw;
    run.clip_grad_norm = true;
    run.loop = Loop::loss_only;
    run.alloc_conf = "expandable_segments:True";
    run.checkpoint.kind = CheckpointConfig::Kind::op;
    Strategy strategy;
    strategy.data = DataParallel::fsdp;
    strategy.gpus = r.ranks;
    strategy.param_type = DType::bf16;
    strategy.reduce_type = DType::fp32;
    strategy.keeps_last_block = strategy.reshards_root = true;
    const Plan plan = make_plan(model, make_catalog(), run, &gpu, strategy);
    CHECK_LE(std::abs(plan.replay.peak.reserved_bytes - r.reserved), kPage);
    CHECK_LE(std::abs(plan.replay.peak.allocated_bytes - r.allocated), kPage);
  }
}
