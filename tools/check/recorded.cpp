#include "tools/check/recorded.h"

#include <algorithm>

#include "estimator/report/read_figures.h"
#include "estimator/snapshot/snapshot_history.h"
#include "tools/answers/snapshot_input.h"
#include "tools/answers/trace_plan.h"
#include "tools/check/settings.h"
#include "tools/options/learned_trace_input.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

void refuse_flags(const Source& source, const RunOptions& run) {
  RunOptions flags = run;
  flags.model.clear();
  if (const std::vector<Setting> given = settings_of(flags); !given.empty())
    throw Error(given.front().key + ": " + source.name + " records one fixed run").help("leave it out of the check");
}

}  // namespace

bool is_recorded(std::string_view start) {
  return is_trace_text(start) || is_pickle_text(start) || is_saved_plan(std::string(start));
}

bool is_recorded_file(const std::string& path) { return is_recorded(start_of({path, nullptr})); }

Source read_recorded(const std::string& path, const std::string& name) {
  Source source =
      *read_file_source(path, is_learned_trace({path, nullptr}) || is_snapshot(path) ? kTraceLimit : kSourceLimit);
  source.name = name;
  return source;
}

Measured measured_of(const SweepFigures& trace) {
  Measured measured;
  measured.figures[Figure::peak] = trace.allocated_bytes;
  measured.figures[Figure::reserved] = trace.reserved_bytes;
  measured.figures[Figure::device] = trace.device_bytes;
  return measured;
}

namespace {

// Of the GPU of the process that took most.
Recorded figures_of_snapshot(const Source& source) {
  const Snapshot snapshot = snapshot_in(source);
  SweepFigures most;
  std::vector<std::string> doubts;
  for (std::size_t device = 0; device < snapshot.devices(); ++device) {
    const SnapshotHistory history = follow(snapshot, device);
    most.allocated_bytes = std::max(most.allocated_bytes, history.peak.allocated_bytes);
    most.reserved_bytes = std::max(most.reserved_bytes, history.peak.reserved_bytes);
    if (const std::string doubt = doubt_about(history); !doubt.empty()) doubts.push_back(source.name + ": " + doubt);
  }
  most.device_bytes = most.reserved_bytes + kAssumedContextBytes;
  return {measured_of(most), std::move(doubts)};
}

}  // namespace

Recorded recorded_figures(const Source& source, const RunOptions& run) {
  if (is_trace_text(source.text)) {
    PlannedFigures trace = trace_figures(source, run);
    return {measured_of(trace.figures), std::move(trace.warnings)};
  }
  refuse_flags(source, run);
  if (is_pickle_text(source.text)) return figures_of_snapshot(source);
  const Figures saved = read_figures(source).figures;
  Measured of_plan;
  FigureValues& figures = of_plan.figures;
  figures[Figure::peak] = saved.allocated_bytes;
  figures[Figure::reserved] = saved.reserved_bytes;
  figures[Figure::device] = saved.device_bytes;
  figures[Figure::params] = saved.parameters;
  figures[Figure::step_flop] = saved.step_flops;
  figures[Figure::step_time] = saved.step_nanoseconds;
  return {of_plan, {}};
}

}  // namespace gpuplan
