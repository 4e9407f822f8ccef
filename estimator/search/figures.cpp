#include "estimator/search/figures.h"

#include <utility>

#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/context_plan.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/verdict.h"
#include "estimator/plan/warnings.h"
#include "estimator/time/rank_time.h"
#include "estimator/time/step_time.h"

namespace gpuplan {

SweepFigures sweep_figures(const Report& report) {
  const Verdict v = verdict(report);
  SweepFigures f;
  f.allocated_bytes = report.peak.reading.allocated_bytes;
  f.reserved_bytes = report.peak.reading.reserved_bytes;
  f.device_bytes = report.peak.device_bytes;
  f.usable_bytes = f.limit_bytes = v.known ? v.usable_bytes : 0;
  f.fits = v.fits;
  f.runs = v.runs;
  f.retries = report.within_memory ? report.within_memory->retries : 0;
  f.phase = name_of(report.peak.phase);
  f.where = report.peak.layer.empty() ? report.peak.op : report.peak.layer;
  f.step_flops = report.compute.step_flops;
  return f;
}

PlannedFigures figures_of(const Plan& plan) {
  const RankStep& step = plan.step;
  if (on_host(step.run)) {
    Report report = report_of(plan);
    return {sweep_figures(report), std::move(report.warnings)};
  }
  SweepFigures f;
  f.allocated_bytes = plan.replay.peak.allocated_bytes;
  f.reserved_bytes = plan.replay.peak.reserved_bytes;
  f.device_bytes = checked_add(f.reserved_bytes, context_bytes(step.run, step.gpu));
  f.phase = name_of(plan.replay.at.phase);
  f.where = where(step, plan.replay.at);
  f.step_flops = compute_of(step.schedule(), step.optimizer, step.run).step_flops;
  if (plan.names_gpu && step.gpu.memory_bytes > 0) {  // Verdict
    const std::optional<LimitedReplay> limited = replay_in_gpu(plan);
    f.usable_bytes = f.limit_bytes = usable_bytes(step.gpu);
    f.fits = f.device_bytes <= f.usable_bytes;
    f.runs = f.fits || (limited && !limited->out_of_memory);
    f.retries = limited ? limited->retries : 0;
  }
  return {std::move(f), warnings_about(*plan.model, step.graph, step.run, plan.named_gpu())};
}

namespace {

PlannedFigures one_rank(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
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

}  // namespace

// All ranks of a context wait for each other in every layer.
PlannedFigures rank_figures(const Model& model, Catalog catalog, const RunConfig& run, const Strategy& strategy,
                            const Topology& topology, const Gpu* gpu, std::optional<HostCopy> timed) {
  PlannedFigures worst = one_rank(model, catalog, run, strategy, topology, gpu, timed);
  for (const Strategy& rank : ranks_of_context(strategy)) {
    PlannedFigures next = one_rank(model, catalog, run, rank, topology, gpu, timed);
    if (next.figures.step_seconds > worst.figures.step_seconds) {
      std::swap(next.figures.step_seconds, worst.figures.step_seconds);
      std::swap(next.figures.samples_per_second, worst.figures.samples_per_second);
    }
    if (next.figures.device_bytes <= worst.figures.device_bytes) continue;
    next.figures.step_seconds = worst.figures.step_seconds;
    next.figures.samples_per_second = worst.figures.samples_per_second;
    worst = std::move(next);
  }
  return worst;
}

}  // namespace gpuplan
