#include "estimator/search/changed_runs.h"

#include "estimator/device/arithmetic.h"

namespace gpuplan {

std::vector<ChangedRun> changed_runs(const RunConfig& run, const Gpu& gpu) {
  std::vector<ChangedRun> list;
  const auto add = [&](const char* flags, auto change) {
    list.push_back({flags, run});
    change(list.back().run);
  };
  if (run.precision == DType::fp32 || run.precision == DType::fp64) {
    const bool bf16 = computes(gpu, Arithmetic::bf16);
    if (run.mode == Mode::train && run.precision == DType::fp32 && !run.autocast)
      add(bf16 ? "--amp bf16" : "--amp fp16", [bf16](RunConfig& r) { r.autocast = bf16 ? DType::bf16 : DType::fp16; });
    add(bf16 ? "--precision bf16" : "--precision fp16", [bf16](RunConfig& r) {
      r.precision = bf16 ? DType::bf16 : DType::fp16;
      r.autocast.reset();
    });
  }
  if (run.mode == Mode::train && run.checkpoint.kind != CheckpointConfig::Kind::block)
    add("--checkpoint block", [](RunConfig& r) { r.checkpoint.kind = CheckpointConfig::Kind::block; });
  if (run.mode == Mode::infer && run.weights == WeightFormat::as_computed)
    add("--weights int8", [](RunConfig& r) { r.weights = WeightFormat::int8; });
  if (run.mode == Mode::train && run.optimizer.impl == OptimizerImpl::foreach_)
    add("--opt-impl for-loop", [](RunConfig& r) { r.optimizer.impl = OptimizerImpl::for_loop; });
  if (run.mode == Mode::train && (run.optimizer.kind != OptimizerKind::sgd || run.optimizer.momentum))
    add("--opt sgd", [](RunConfig& r) {
      r.optimizer = {.kind = OptimizerKind::sgd, .impl = r.optimizer.impl, .weight_decay = r.optimizer.weight_decay};
    });
  if (run.batch > 1 && run.micro_batches == 1) add("--batch 1", [](RunConfig& r) { r.batch = 1; });
  return list;
}

}  // namespace gpuplan
