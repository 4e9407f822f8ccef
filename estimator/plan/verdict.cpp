#include "estimator/plan/verdict.h"

namespace gpuplan {

Verdict verdict(const Report& report) {
  if (!report.gpu || report.gpu->memory_bytes <= 0) return {};
  const std::int64_t usable = usable_bytes(*report.gpu);
  const bool fits = report.peak.device_bytes <= usable;
  const bool runs = fits || (report.within_memory && report.within_memory->runs);
  return {.known = true, .fits = fits, .runs = runs, .usable_bytes = usable};
}

}  // namespace gpuplan
