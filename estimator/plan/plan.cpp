#include "estimator/plan/plan.h"

#include <algorithm>
#include <utility>

#include "estimator/allocator/placement.h"
#include "estimator/device/arithmetic.h"
#include "estimator/plan/assumptions.h"
#include "estimator/plan/at_most.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/step_parts.h"
#include "estimator/plan/tensor_peak.h"
#include "estimator/plan/warnings.h"

namespace gpuplan {

Report plan(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* named_gpu) {
  if (named_gpu != nullptr) refuse_arithmetic(run, *named_gpu);
  const Gpu gpu = named_gpu != nullptr ? *named_gpu : assumed_gpu();
  const StepParts step = make_step(model, catalog, run, gpu);
  Placement placement = place(step.graph, step.passes, step.optimizer, run, gpu);
  const TensorLevels levels = tensor_levels(step.graph, step.passes, step.optimizer, run);

  const PlanParts parts{model, step.graph, step.passes, step.optimizer, placement, levels};
  Report r = make_report(parts, run, gpu);
  if (named_gpu != nullptr) r.gpu = gpu;
  r.at_most = at_most(parts, r, gpu);
  r.phases = std::move(placement.phases);
  r.timeline = std::move(placement.timeline);
  if (const std::int64_t usable = usable_bytes(r); usable > 0 && r.peak.device_bytes > usable)
    r.within_memory = within_memory(parts, place_within(std::max<std::int64_t>(usable - r.peak.context_bytes, 0),
                                                        step.graph, step.passes, step.optimizer, run, gpu));
  r.assumptions = assumptions_of(model, step.passes, r, gpu);
  r.warnings = warnings_about(model, step.graph, run, named_gpu);
  return r;
}

}  // namespace gpuplan
