#include "tools/check/side_plan.h"

#include <algorithm>

#include "estimator/plan/plan.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/writers.h"
#include "estimator/search/device_bytes.h"
#include "layers/catalog.h"
#include "tools/answers/every_rank.h"
#include "tools/check/settings.h"

namespace gpuplan {

PlannedReport planned_of(const Planning& planning, const CheckSide& side) {
  if (!side.strategy) return make_planned(planning);
  const Topology topology = topology_of(side.check, planning.gpu);
  const bool one = std::ranges::any_of(side.check.settings, [](const Setting& s) { return s.key == "rank"; });
  return one ? make_planned(planning, *side.strategy, topology) : plan_worst_rank(planning, *side.strategy, topology);
}

std::int64_t device_bytes_on(const CheckSide& side, const Gpu& gpu) {
  if (!side.strategy) return device_bytes(make_plan(side.planning.model, make_catalog(), side.planning.run, &gpu));
  Planning planning = side.planning;
  planning.gpu = gpu;
  planning.gpu_is_limit = false;
  return *figure_values(planned_of(planning, side).report)[Figure::device];
}

std::int64_t figure_of(const Assertion& a, const CheckSide& side, const Gpu* fits) {
  if (fits != nullptr) return device_bytes_on(side, *fits);
  const Report report = planned_of(side.planning, side).report;
  FigureValues figures = figure_values(report);
  if (!a.pattern.empty()) {
    figures = {};
    for (const ModuleFigures& module : matching_modules(report, a.pattern))
      if (module.path == a.subject) figures = module.figures;
  }
  if (!figures[a.figure]) throw Error(std::string(name_of(a.figure)) + " is not known");
  return *figures[a.figure];
}

std::string run_words(const RunConfig& run) {
  std::string words =
      std::string(name_of(run.mode)) + ", batch " + format_count(run.batch) + ", " + precision_words(run);
  if (run.mode == Mode::train) words += ", " + std::string(name_of(run.optimizer));
  for (const std::string& extra : extra_words(run)) words += ", " + extra;
  return words;
}

std::string peak_place(const Report& report) {
  const std::string& of = report.peak.layer.empty() ? report.peak.op : report.peak.layer;
  std::string place(name_of(report.peak.phase));
  return of.empty() || of == place ? place : place + " of " + of;
}

}  // namespace gpuplan
