#include "validate/validation.h"

#include <algorithm>
#include <cmath>

#include "estimator/error.h"
#include "estimator/graph/build.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/plan.h"
#include "estimator/report/make_report.h"

namespace gpuplan {
namespace {

std::string place_name(const Graph& graph, const Schedule& schedule, Phase phase, std::int32_t step) {
  std::string place(name_of(phase));
  if (step == kNone) return place;
  const Step& s = schedule.steps[static_cast<std::size_t>(step)];
  const std::string of = s.layer == kNone ? std::string(s.name) : graph.layers[static_cast<std::size_t>(s.layer)].name;
  return of == place ? place : place + " of " + of;
}

std::string place_name(const Report& report) {
  std::string place(name_of(report.peak.phase));
  const std::string& of = report.peak.layer.empty() ? report.peak.op : report.peak.layer;
  return of.empty() || of == place ? place : place + " of " + of;
}

const PhaseRow* row_of(const std::vector<PhaseRow>& rows, bool steady, Phase phase) {
  const auto found =
      std::ranges::find_if(rows, [&](const PhaseRow& r) { return r.steady == steady && r.phase == phase; });
  return found == rows.end() ? nullptr : &*found;
}

Reading highest(const std::vector<PhaseRow>& rows) {
  Reading peak;
  for (const PhaseRow& r : rows) {
    if (!r.steady) continue;
    peak.allocated_bytes = std::max(peak.allocated_bytes, r.peak.allocated_bytes);
    peak.reserved_bytes = std::max(peak.reserved_bytes, r.peak.reserved_bytes);
  }
  return peak;
}

// Of a run that the device has room for only by giving caches back, the rows with unlimited memory would be another
// run's.
std::vector<PhaseRow> planned_phases(const Report& plan, const Walk& walk, int steps) {
  if (!plan.within_memory || !plan.within_memory->runs) return plan.phases;
  ArithmeticSegments segments(usable_bytes(plan) - plan.peak.context_bytes);
  CachingAllocator allocator(segments, parse_alloc_conf(walk.parts.run.alloc_conf));
  Placement placement;
  TrainingLoop<CachingAllocator>(allocator, walk.parts, nullptr, steps).replay_within_limit(&placement);
  return placement.phases;
}

std::vector<ValidationRow> memory_rows(const std::vector<PhaseRow>& planned, const Placement& measured) {
  std::vector<ValidationRow> rows;
  const auto add = [&](const char* name, const char* label, bool steady, Phase phase) {
    const PhaseRow* p = row_of(planned, steady, phase);
    const PhaseRow* m = row_of(measured.phases, steady, phase);
    if (p != nullptr && m != nullptr) rows.push_back({name, label, p->live.allocated_bytes, m->live.allocated_bytes});
  };
  add("model_and_batch", "model and batch", false, Phase::start);
  add("after_forward", "after forward", true, Phase::forward);
  add("after_backward", "after backward", true, Phase::backward);
  add("after_optimizer", "after optimizer step", true, Phase::optimizer);
  const Reading p = highest(planned), m = highest(measured.phases);
  rows.push_back({"peak_allocated", "peak allocated", p.allocated_bytes, m.allocated_bytes});
  rows.push_back({"peak_reserved", "peak reserved", p.reserved_bytes, m.reserved_bytes});
  return rows;
}

std::int64_t used(const DeviceMemory& m) { return m.total_bytes - m.free_bytes; }

// With poison nothing that is needed may have been released: losses, weights and gradients are those of a run that
// keeps everything.
bool values_are_equal(Device& device, const Walk& walk) {
  const WalkResult freed = run(device, walk, {.poison = true, .collects = true});
  const WalkResult kept = run(device, walk, {.poison = true, .keeps_everything = true, .collects = true});
  const auto finite = [](double x) { return std::isfinite(x); };
  return freed.losses == kept.losses && std::ranges::all_of(freed.losses, finite) && freed.weights == kept.weights &&
         freed.gradients == kept.gradients && freed.output == kept.output;
}

void tell_device(const WalkResult& result, std::int64_t before, Validation& v) {
  std::int64_t most = before;
  for (const DeviceReading& r : result.readings) most = std::max(most, used(r.memory));
  const std::int64_t reserved = v.rows.back().measured_bytes;
  v.before_bytes = before;
  v.unaccounted_bytes = most - before - reserved;
}

RanOut ran_out(const PlanParts& parts, const Report& plan, const LimitedPlacement& limited) {
  RanOut out{within_memory(parts, limited)};
  const std::optional<WithinMemory>& said = plan.within_memory;
  out.predicted = said && !said->runs && said->step == out.measured.step && said->phase == out.measured.phase &&
                  said->layer == out.measured.layer && said->tried_bytes == out.measured.tried_bytes;
  return out;
}

[[noreturn]] void refuse(const std::vector<std::string>& reasons) {
  Error error("this plan cannot be run on a device: " + reasons.front(), ErrorKind::environment);
  for (std::size_t i = 1; i < reasons.size(); ++i) error.help("nor can " + reasons[i]);
  throw error;
}

}  // namespace

double ValidationRow::error() const {
  if (measured_bytes == 0) return predicted_bytes == 0 ? 0 : 1;
  return static_cast<double>(error_bytes()) / static_cast<double>(measured_bytes);
}

bool Validation::holds(double tolerance) const {
  if (ran_out) return ran_out->predicted;
  return std::ranges::all_of(rows, [&](const ValidationRow& r) { return std::abs(r.error()) <= tolerance; }) &&
         peak_predicted == peak_measured && values_equal.value_or(true);
}

Validation validate(Device& device, const Model& model, Catalog catalog, const RunConfig& run_config, const Gpu& gpu,
                    const ValidationOptions& options) {
  const std::int64_t before = used(device.memory());
  const Graph graph = build_graph(model, catalog, run_config, gpu);
  const Passes passes = make_passes(graph, run_config, gpu);
  const OptimizerWork optimizer = optimizer_work(graph, passes.schedules.front(), run_config, gpu);
  const Walk walk{{graph, passes.schedules, optimizer, run_config, gpu}, passes.calls};
  if (const std::vector<std::string> reasons = refusals(device, walk); !reasons.empty()) refuse(reasons);

  Validation v;
  v.device = device.description();
  v.computes = options.computes;
  v.plan = plan(model, catalog, run_config, &gpu);
  const WalkResult result = run(device, walk, {.reads_losses = options.computes, .steps = options.steps});
  if (result.within.out_of_memory) {
    const TensorLevels levels{};
    v.ran_out = ran_out({model, graph, passes.schedules, optimizer, result.placement, levels}, v.plan, result.within);
    return v;
  }
  v.rows = memory_rows(planned_phases(v.plan, walk, options.steps), result.placement);
  tell_device(result, before, v);
  v.peak_predicted = place_name(v.plan);
  v.peak_measured = place_name(graph, passes.schedules[result.placement.at.pass], result.placement.at.phase,
                               result.placement.at.step);
  if (!options.computes) return v;
  v.losses = result.losses;
  if (options.compares_values) v.values_equal = values_are_equal(device, walk);
  return v;
}

}  // namespace gpuplan
