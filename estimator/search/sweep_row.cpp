#include "estimator/search/sweep_row.h"

#include "estimator/plan/verdict.h"

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
  f.phase = report.peak.phase;
  f.where = report.peak.layer.empty() ? report.peak.op : report.peak.layer;
  f.step_flops = report.compute.step_flops;
  return f;
}

}  // namespace gpuplan
