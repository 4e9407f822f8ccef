#include "estimator/search/changed_runs.h"

#include "estimator/device/arithmetic.h"

namespace gpuplan {

std::vector<ChangedRun> changed_runs(const RunConfig& run, const Gpu& gpu) {
  std::vector<ChangedRun> list;
  const auto add = [&](const char* flags, Reach reach, auto change) {
    list.push_back({flags, run, reach});
    change(list.back().run);
  };
  const bool trains = run.mode == Mode::train;
  if ((run.precision == DType::fp32 || run.precision == DType::fp64) && !run.autocast) {
    const bool bf16 = computes(gpu, Arithmetic::bf16);
    const DType half = bf16 ? DType::bf16 : DType::fp16;
    if (trains && run.precision == DType::fp32)
      add(bf16 ? "--amp bf16" : "--amp fp16", Reach::rounding, [half](RunConfig& r) { r.autocast = half; });
    add(bf16 ? "--precision bf16" : "--precision fp16", Reach::weights, [half](RunConfig& r) { r.precision = half; });
  }
  if (trains && run.checkpoint.kind != CheckpointConfig::Kind::block)
    add("--checkpoint block", Reach::nothing, [](RunConfig& r) { r.checkpoint.kind = CheckpointConfig::Kind::block; });
  if (!trains && run.weights == WeightFormat::as_computed)
    add("--weights int8", Reach::weights, [](RunConfig& r) { r.weights = WeightFormat::int8; });
  if (!trains && run.weights != WeightFormat::int4)
    add("--weights int4", Reach::weights, [](RunConfig& r) { r.weights = WeightFormat::int4; });
  if (trains && run.optimizer.kind != OptimizerKind::none && run.optimizer.impl == OptimizerImpl::foreach_)
    add("--opt-impl for-loop", Reach::nothing, [](RunConfig& r) { r.optimizer.impl = OptimizerImpl::for_loop; });
  if (trains && (run.optimizer.kind != OptimizerKind::sgd || run.optimizer.momentum))
    add("--opt sgd", Reach::optimizer, [](RunConfig& r) {
      r.optimizer = {.kind = OptimizerKind::sgd, .impl = r.optimizer.impl, .weight_decay = r.optimizer.weight_decay};
    });
  if (run.batch > 1 && run.micro_batches == 1) add("--batch 1", Reach::batch, [](RunConfig& r) { r.batch = 1; });
  return list;
}

}  // namespace gpuplan
