#include "validate/validation.h"

#include <algorithm>
#include <cmath>

#include "estimator/base/error.h"
#include "estimator/graph/build.h"
#include "estimator/optimizer/optimizer_work.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/plan.h"
#include "validate/memory_comparison.h"

namespace gpuplan {
namespace {

std::string place_name(const Graph& graph, const Schedule& schedule, Phase phase, std::int32_t step) {
  std::string place(name_of(phase));
  if (step == kNone) return place;
  const ScheduledOp& s = schedule.ops[static_cast<std::size_t>(step)];
  const std::string of = s.layer == kNone ? std::string(s.name) : graph.layers[static_cast<std::size_t>(s.layer)].name;
  return of == place ? place : place + " of " + of;
}

std::string place_name(const Report& report) {
  std::string place(name_of(report.peak.phase));
  const std::string& of = report.peak.layer.empty() ? report.peak.op : report.peak.layer;
  return of.empty() || of == place ? place : place + " of " + of;
}

// Tells how far an execution is.
class StageWatcher : public ExecutionWatcher {
 public:
  StageWatcher(const ValidationOptions& options, std::string_view what, int steps)
      : options_(options), stage_{what, 0, steps} {}

  void tick() override {
    if (options_.progress) options_.progress(stage_);
  }
  void phase_ended(int training_step, Phase phase) override {
    if (phase == Phase::start) stage_.step = training_step + 1;
    tick();
  }

 protected:
  const ValidationOptions& options_;

 private:
  ValidationStage stage_;
};

// Also reads what NVML says when a phase has ended.
class MemoryWatcher final : public StageWatcher {
 public:
  using StageWatcher::StageWatcher;
  std::vector<std::optional<std::int64_t>> process_bytes;

  void phase_ended(int training_step, Phase phase) override {
    StageWatcher::phase_ended(training_step, phase);
    process_bytes.push_back(options_.process_bytes ? options_.process_bytes() : std::nullopt);
  }
};

MemoryBefore memory_before(Device& device, const DeviceDescription& description, const ValidationOptions& options) {
  const DeviceMemory now = device.memory();
  MemoryBefore before;
  before.device_bytes = now.total_bytes - now.free_bytes;
  if (options.process_bytes) before.process_bytes = options.process_bytes();
  const std::int64_t with_context = description.context_bytes > 0 ? description.context_bytes : before.device_bytes;
  before.library_bytes = before.device_bytes - with_context;
  before.context_bytes = with_context - before.other_bytes().value_or(0);
  return before;
}

// Of a run that the device has room for only by giving caches back, the rows with unlimited memory would be another
// run's.
std::vector<PhaseRow> planned_phases(const Report& plan, const RankStep& rank, int steps) {
  if (!plan.within_memory || !plan.within_memory->runs) return plan.phases;
  ArithmeticSegments segments(usable_bytes(rank.gpu) - plan.peak.context_bytes);
  CachingAllocator allocator(segments, parse_alloc_conf(rank.run.alloc_conf));
  LoopReplay replay;
  replay_loop(allocator, rank, nullptr, steps, &replay);
  return replay.phases;
}

RanOut ran_out(const RankStep& step, const LimitedReplay& measured, std::int64_t free_bytes) {
  const LimitedReplay said = replay_within(free_bytes, step);
  RanOut out;
  out.measured = within_memory(step, measured);
  if (said.out_of_memory)
    out.predicted = within_memory(step, said);
  else
    out.predicted.runs = true;
  out.free_bytes = free_bytes;
  out.same = said.out_of_memory && said.training_step == measured.training_step && said.phase == measured.phase &&
             said.step == measured.step && said.pass == measured.pass &&
             said.reading.tried_bytes == measured.reading.tried_bytes;
  return out;
}

// With poison nothing that is needed may have been released: losses, weights and gradients are those of a run that
// keeps everything.
void compare_values(Device& device, const RankStep& rank, const ValidationOptions& options, Validation& v) {
  const auto executed = [&](bool keeps_everything, std::string_view what) {
    ExecutionOptions o;
    StageWatcher watcher(options, what, o.steps);
    o.poison = o.collects = o.repeatable = true;
    o.keeps_everything = keeps_everything;
    o.reads_memory = false;
    o.watcher = &watcher;
    ExecutionResult result = run(device, rank, o);
    device.release_all();
    return result;
  };
  const ExecutionResult freed = executed(false, "values");
  const ExecutionResult kept = executed(true, "values, releasing nothing");
  if (freed.within.out_of_memory || kept.within.out_of_memory) {
    v.values_not_compared = "a run that frees nothing needs more memory than the device has";
    return;
  }
  const auto finite = [](double x) { return std::isfinite(x); };
  v.values_equal = freed.losses == kept.losses && std::ranges::all_of(freed.losses, finite) &&
                   freed.weights == kept.weights && freed.gradients == kept.gradients && freed.output == kept.output;
}

void measure_times(Device& device, const RankStep& rank, const ValidationOptions& options, Validation& v) {
  Gpu gpu = rank.gpu;
  if (v.device.sm_clock_khz > 0) gpu.sm_clock_khz = v.device.sm_clock_khz;
  if (v.device.memory_clock_khz > 0) gpu.memory_clock_khz = v.device.memory_clock_khz;
  if (v.device.memory_bus_bits > 0) gpu.memory_bus_bits = v.device.memory_bus_bits;
  StageWatcher watcher(options, "time", timed_execution_steps(options.steps));
  v.times = time_steps(device, rank, options.steps, peaks_of(gpu), &watcher);
  device.release_all();
}

[[noreturn]] void refuse(const std::vector<std::string>& reasons) {
  std::string message = "this plan cannot be run on this device";
  for (std::size_t i = 0; i < reasons.size(); ++i) message += (i == 0 ? ": " : "; ") + reasons[i];
  throw Error(message, ErrorKind::environment).help("gpuplan plan estimates it all the same");
}

}  // namespace

double ValidationRow::error() const {
  if (measured_bytes == 0) return predicted_bytes == 0 ? 0 : 1;
  return static_cast<double>(error_bytes()) / static_cast<double>(measured_bytes);
}

std::optional<std::int64_t> MemoryBefore::other_bytes() const {
  return process_bytes ? std::optional(device_bytes - *process_bytes) : std::nullopt;
}

bool Validation::holds(double tolerance) const {
  const auto within = [&](const ValidationRow& r) { return !r.counts || std::abs(r.error()) <= tolerance; };
  return !ran_out && std::ranges::all_of(rows, within) && peak_predicted == peak_measured &&
         values_equal.value_or(true) && values_not_compared.empty();
}

Validation validate(Device& device, const Model& model, Catalog catalog, const RunConfig& run_config, const Gpu& gpu,
                    const ValidationOptions& options) {
  Validation v;
  v.device = device.description();
  v.before = memory_before(device, v.device, options);
  v.computes = options.computes;
  const std::int64_t free_bytes = device.memory().free_bytes;
  const Plan planned = make_plan(model, catalog, run_config, &gpu, {}, true);
  const RankStep& rank = planned.step;
  if (const std::vector<std::string> reasons = refusals(device, rank); !reasons.empty()) refuse(reasons);

  v.plan = report_of(planned);
  MemoryWatcher watcher(options, "memory", options.steps);
  ExecutionOptions execution_options;
  execution_options.reads_losses = options.computes;
  execution_options.checked_steps = options.computes ? 1 : 0;
  execution_options.steps = options.steps;
  execution_options.watcher = &watcher;
  const ExecutionResult result = run(device, rank, execution_options);
  device.release_all();
  v.remarks = device.remarks();
  if (result.within.out_of_memory) {
    v.ran_out = ran_out(rank, result.within, free_bytes);
    return v;
  }
  compare_memory(v, planned_phases(v.plan, rank, options.steps), result, watcher.process_bytes);
  v.peak_predicted = place_name(v.plan);
  v.peak_measured = place_name(rank.graph, rank.micro_batches.schedules[result.replay.at.pass], result.replay.at.phase,
                               result.replay.at.step);
  if (!options.computes) return v;
  v.losses = result.losses;
  measure_times(device, rank, options, v);
  if (options.compares_values) compare_values(device, rank, options, v);
  return v;
}

}  // namespace gpuplan
