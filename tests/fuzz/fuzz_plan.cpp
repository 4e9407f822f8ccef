// Bytes as a model spec, planned under settings taken from the first byte: only Error may come out.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"

namespace {

gpuplan::RunConfig settings(std::uint8_t byte) {
  gpuplan::RunConfig run;
  run.batch = (byte & 1) != 0 ? 3 : 1;
  run.mode = (byte & 2) != 0 ? gpuplan::Mode::infer : gpuplan::Mode::train;
  run.loop = (byte & 4) != 0 ? gpuplan::Loop::function : gpuplan::Loop::plain;
  run.pytorch = (byte & 8) != 0 ? 113 : gpuplan::kNewestPyTorch;
  if (run.pytorch == 113) run.optimizer.impl = gpuplan::OptimizerImpl::for_loop;
  run.optimizer.kind = (byte & 16) != 0 ? gpuplan::OptimizerKind::adam : gpuplan::OptimizerKind::sgd;
  run.clip_grad_norm = (byte & 32) != 0;
  return run;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) return 0;
  auto source = std::make_shared<gpuplan::Source>();
  source->name = "fuzz.yaml";
  source->text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const gpuplan::Model model = gpuplan::read_model(source, {});
    (void)gpuplan::plan(model, gpuplan::make_catalog(), settings(data[0]));
  } catch (const gpuplan::Error&) {
  }
  return 0;
}
