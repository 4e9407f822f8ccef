#include "estimator/search/gpus_needed.h"

#include "estimator/error.h"
#include "estimator/plan_rank.h"

namespace gpuplan {

std::optional<GpusNeeded> gpus_needed(const Model& model, Catalog catalog, const RunConfig& run, DataParallel kind,
                                      const Gpu& gpu, std::int64_t usable_bytes, std::int64_t most) {
  Strategy strategy;
  strategy.data = kind;
  for (strategy.gpus = 2; strategy.gpus <= most && run.batch % strategy.gpus == 0; strategy.gpus *= 2) {
    try {
      const RankPlan plan = plan_rank(model, catalog, run, strategy, {}, &gpu);
      const std::int64_t bytes = plan.report.peak.device_bytes;
      if (bytes <= usable_bytes) return GpusNeeded{strategy.gpus, bytes};
    } catch (const Error&) {  // not planned with several GPUs, or a batch too small for the model
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace gpuplan
