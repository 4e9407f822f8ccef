#include "estimator/search/figures.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/plan_rank.h"
#include "estimator/plan/warnings.h"
#include "estimator/search/device_bytes.h"
#include "estimator/time/step_time.h"
#include "estimator/time/time_rank.h"

namespace gpuplan {

PlannedStep::PlannedStep(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu, bool timed)
    : model_(model), catalog_(catalog), run_(run) {
  if (on_host(run)) return;
  own_ = lower_step(model, catalog, run, gpu, timed);
  lowered_ = &*own_;
  place_on(gpu);
}

PlannedStep::PlannedStep(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                         const LoweredStep& lowered)
    : model_(model), catalog_(catalog), run_(run), lowered_(on_host(run) ? nullptr : &lowered) {
  if (lowered_ != nullptr) place_on(gpu);
}

void PlannedStep::place_on(const Gpu& gpu) {
  placement_ = place(lowered_->graph, lowered_->passes.schedules, lowered_->optimizer, run_, gpu);
}

PlannedFigures PlannedStep::figures(const Gpu* named_gpu) const {
  if (lowered_ == nullptr) {
    Report report = plan(model_, catalog_, run_, named_gpu);
    return {sweep_figures(report), std::move(report.warnings)};
  }
  SweepFigures f;
  f.allocated_bytes = placement_.peak.allocated_bytes;
  f.reserved_bytes = placement_.peak.reserved_bytes;
  f.device_bytes =
      checked_add(f.reserved_bytes, context_bytes(run_, named_gpu != nullptr ? *named_gpu : assumed_gpu()));
  f.phase = placement_.at.phase;
  f.where = where(lowered_->graph, lowered_->passes.schedules, placement_.at);
  f.step_flops = lowered_->flops;
  if (named_gpu != nullptr) tell_limit(*named_gpu, f);
  return {std::move(f), warnings_about(model_, lowered_->graph, run_, named_gpu)};
}

// Whether it fits the GPU, and whether it runs there (Verdict, Report::within_memory).
void PlannedStep::tell_limit(const Gpu& gpu, SweepFigures& f) const {
  const std::int64_t usable = usable_bytes(gpu);
  const bool known = gpu.memory_bytes > 0;
  const bool fits = f.device_bytes <= usable;
  bool runs = fits;
  if (!fits && run_.allocator == AllocatorKind::caching && usable > 0) {
    const std::int64_t room = std::max<std::int64_t>(usable - context_bytes(run_, gpu), 0);
    const auto& [graph, passes, optimizer, flops] = *lowered_;
    const LimitedPlacement limited = place_within(room, graph, passes.schedules, optimizer, run_, gpu);
    runs = !limited.out_of_memory;
    f.retries = limited.retries;
  }
  f.usable_bytes = f.limit_bytes = known ? usable : 0;
  f.fits = !known || fits;
  f.runs = !known || runs;
}

std::optional<StepTime> PlannedStep::time(const Gpu& gpu, HostCopy copy) const {
  if (lowered_ == nullptr) return std::nullopt;
  const auto& [graph, passes, optimizer, flops] = *lowered_;
  return step_time(graph, passes, step_update(graph, passes.schedules.front(), optimizer), run_, gpu, copy);
}

PlannedFigures rank_figures(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                            const Topology& topology, const Gpu* gpu, std::optional<HostCopy> timed) {
  RankPlan rank = plan_rank(model, catalog, run, strategy, topology, gpu);
  PlannedFigures planned{sweep_figures(rank.report), std::move(rank.report.warnings)};
  SweepFigures& f = planned.figures;
  f.sent_bytes = 0;
  for (const CommunicationRow& row : rank.communication) f.sent_bytes = checked_add(*f.sent_bytes, row.sent_bytes);
  if (gpu == nullptr || !timed) return planned;
  const auto time = time_rank(model, catalog, run, strategy, rank.communication, *gpu, *timed);
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
