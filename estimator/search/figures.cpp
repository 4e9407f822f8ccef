#include "estimator/search/figures.h"

#include <algorithm>

#include "estimator/device/arithmetic.h"
#include "estimator/integers.h"
#include "estimator/memory/placement.h"
#include "estimator/plan.h"
#include "estimator/report/make_report.h"
#include "estimator/search/device_bytes.h"
#include "estimator/step_parts.h"
#include "estimator/warnings.h"

namespace gpuplan {

namespace {

// Whether it fits the GPU, at once or by giving the cache back (Verdict, Report::within_memory).
void tell_limit(const StepParts& step, const RunConfig& run, const Gpu& gpu, SweepFigures& f) {
  const std::int64_t usable = usable_bytes(gpu);
  const bool known = gpu.memory_bytes > 0;
  bool fits = f.device_bytes <= usable;
  if (!fits && run.allocator == AllocatorKind::caching && usable > 0) {
    const std::int64_t room = std::max<std::int64_t>(usable - context_bytes(run, gpu), 0);
    const LimitedPlacement limited = place_within(room, step.graph, step.passes, step.optimizer, run, gpu);
    fits = !limited.out_of_memory;
    f.retries = limited.retries;
  }
  f.usable_bytes = known ? usable : 0;
  f.fits = !known || fits;
}

}  // namespace

PlannedFigures plan_figures(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* named_gpu) {
  if (run.offload_saved || run.offload_optimizer) {  // sums of what is on the host, which nothing else bounds
    Report report = plan(model, catalog, run, named_gpu);
    return {sweep_figures(report), std::move(report.warnings)};
  }
  if (named_gpu != nullptr) refuse_arithmetic(run, *named_gpu);
  const Gpu gpu = named_gpu != nullptr ? *named_gpu : assumed_gpu();
  const StepParts step = make_step(model, catalog, run, gpu);
  const Placement placement = place(step.graph, step.passes, step.optimizer, run, gpu);
  SweepFigures f;
  f.allocated_bytes = placement.peak.allocated_bytes;
  f.reserved_bytes = placement.peak.reserved_bytes;
  f.device_bytes = checked_add(f.reserved_bytes, context_bytes(run, gpu));
  f.phase = placement.at.phase;
  f.where = where(step.graph, step.passes, placement.at);
  f.step_flops = compute_of(step.passes.front(), step.optimizer, run).step_flops;
  if (named_gpu != nullptr) tell_limit(step, run, gpu, f);
  return {std::move(f), warnings_about(model, step.graph, run, named_gpu)};
}

}  // namespace gpuplan
