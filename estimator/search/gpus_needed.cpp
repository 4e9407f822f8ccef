#include "estimator/search/gpus_needed.h"

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/plan/plan.h"

namespace gpuplan {

std::optional<GpusNeeded> gpus_needed(const Model& model, Catalog catalog, const RunConfig& run, Strategy strategy,
                                      const Gpu& gpu, std::int64_t usable_bytes, std::int64_t most) {
  RunConfig whole = run;
  const bool one_each = run.batch <= checked_mul(strategy.sample_groups(), run.micro_batches);
  for (; strategy.gpus <= most; strategy.gpus *= 2) {
    const std::int64_t parts = checked_mul(strategy.sample_groups(), run.micro_batches);
    if (one_each) whole.batch = std::max(whole.batch, parts);
    if (whole.batch % parts != 0) return std::nullopt;
    try {
      const std::int64_t bytes = report_of(make_plan(model, catalog, whole, &gpu, strategy)).peak.device_bytes;
      if (bytes <= usable_bytes) return GpusNeeded{strategy.gpus, bytes, whole.batch};
    } catch (const Error&) {  // not planned with several GPUs, or a batch too small for the model
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace gpuplan
