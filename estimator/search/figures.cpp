#include "estimator/search/figures.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/warnings.h"
#include "estimator/search/device_bytes.h"
#include "estimator/time/rank_time.h"
#include "estimator/time/step_time.h"

namespace gpuplan {

PlannedStep::PlannedStep(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu, bool timed)
    : model_(model), catalog_(catalog), run_(run) {
  if (on_host(run)) return;
  own_ = make_step(model, catalog, run, gpu, {}, timed);
  step_ = &*own_;
  replay_ = replay_step(*step_);
}

PlannedStep::PlannedStep(const Model& model, Catalog catalog, const RunConfig& run, RankStep& lowered)
    : model_(model), catalog_(catalog), run_(run) {
  if (on_host(run)) return;
  step_ = &lowered;
  replay_ = replay_step(*step_);
}

PlannedFigures PlannedStep::figures(const Gpu* named_gpu) const {
  if (step_ == nullptr) {
    Report report = plan(model_, catalog_, run_, named_gpu);
    return {sweep_figures(report), std::move(report.warnings)};
  }
  SweepFigures f;
  f.allocated_bytes = replay_.peak.allocated_bytes;
  f.reserved_bytes = replay_.peak.reserved_bytes;
  f.device_bytes =
      checked_add(f.reserved_bytes, context_bytes(run_, named_gpu != nullptr ? *named_gpu : assumed_gpu()));
  f.phase = replay_.at.phase;
  f.where = where(*step_, replay_.at);
  f.step_flops = compute_of(step_->schedule(), step_->optimizer, run_).step_flops;
  if (named_gpu != nullptr) tell_limit(*named_gpu, f);
  return {std::move(f), warnings_about(model_, step_->graph, run_, named_gpu)};
}

// Whether it fits the GPU, and whether it runs there (Verdict, Report::within_memory).
void PlannedStep::tell_limit(const Gpu& gpu, SweepFigures& f) const {
  const std::int64_t usable = usable_bytes(gpu);
  const bool known = gpu.memory_bytes > 0;
  const bool fits = f.device_bytes <= usable;
  bool runs = fits;
  if (!fits && run_.allocator == AllocatorKind::caching && usable > 0) {
    const std::int64_t room = std::max<std::int64_t>(usable - context_bytes(run_, gpu), 0);
    const LimitedReplay limited = replay_within(room, *step_);
    runs = !limited.out_of_memory;
    f.retries = limited.retries;
  }
  f.usable_bytes = f.limit_bytes = known ? usable : 0;
  f.fits = !known || fits;
  f.runs = !known || runs;
}

std::optional<StepTime> PlannedStep::time(const Gpu& gpu, HostCopy copy) {
  if (step_ == nullptr) return std::nullopt;
  step_->gpu = gpu;  // one that reserves alike
  return step_time(*step_, copy);
}

PlannedFigures rank_figures(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                            const Topology& topology, const Gpu* gpu, std::optional<HostCopy> timed) {
  const bool clocked = gpu != nullptr && timed && why_no_time(run, *gpu, *timed).empty();
  const Plan plan = make_plan(model, catalog, run, gpu, strategy, clocked);
  Report report = report_of(plan, topology);
  PlannedFigures planned{sweep_figures(report), std::move(report.warnings)};
  SweepFigures& f = planned.figures;
  f.sent_bytes = 0;
  for (const CommunicationRow& row : report.rank->communication)
    f.sent_bytes = checked_add(*f.sent_bytes, row.sent_bytes);
  if (!clocked) return planned;
  const auto time = rank_time(plan.step, report.rank->communication, *timed);
  if (!time || time->step.seconds() <= 0) return planned;
  f.step_seconds = time->step.seconds();
  f.samples_per_second = static_cast<double>(run.batch) / time->step.seconds();
  f.communication_seconds = time->step.communication_seconds;
  f.scaling_efficiency = time->efficiency();
  return planned;
}

PlannedFigures plan_figures(const Model& model, Catalog catalog, const RunConfig& run, const Gpu* gpu) {
  if (gpu != nullptr) refuse_arithmetic(run, *gpu);
  return PlannedStep(model, catalog, run, gpu != nullptr ? *gpu : assumed_gpu()).figures(gpu);
}

}  // namespace gpuplan
