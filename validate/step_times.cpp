#include "validate/step_times.h"

#include <algorithm>
#include <array>
#include <map>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/time/work.h"

namespace gpuplan {
namespace {

constexpr int kWarmUpSteps = 2;  // memory has settled, libraries have chosen their kernels

// Something that a step runs: an operation of a schedule, or (step < 0) a part of the optimizer.
struct Timed {
  std::size_t pass = 0;
  std::int32_t step = kNone;
  OptimizerPart part = OptimizerPart::construction;
  auto operator<=>(const Timed&) const = default;
};

// Milliseconds of each timed step, and how often it ran.
struct Readings {
  std::vector<double> ms;
  std::int64_t times = 0;  // in all of them
};

class StepTimer final : public ExecutionWatcher {
 public:
  StepTimer(Device& device, int steps, ExecutionWatcher* next) : device_(device), steps_(steps), next_(next) {}

  std::vector<double> plain_ms, marked_ms;
  std::map<Timed, Readings> readings;

  void tick() override {
    if (next_ != nullptr) next_->tick();
  }
  void kernel_enqueued(std::size_t pass, std::int32_t step) override {
    if (marking_) note({pass, step, OptimizerPart::construction});
  }
  void optimizer_enqueued(OptimizerPart part) override {
    if (marking_) note({0, kNone, part});
  }
  void phase_ended(int training_step, Phase phase) override {
    if (next_ != nullptr) next_->phase_ended(training_step, phase);
    if (phase != Phase::end) return;
    const int ended = training_step + 1;
    if (ended >= kWarmUpSteps && ended <= kWarmUpSteps + steps_) ends_.push_back(device_.mark());
    if (ended == kWarmUpSteps + steps_) read_plain();
    if (ended > kWarmUpSteps + steps_) read_marked();
    if (ended >= kWarmUpSteps + steps_) begin_marked();
  }

 private:
  void note(const Timed& what) {
    order_.push_back(what);
    marks_.push_back(device_.mark());
  }
  void begin_marked() {
    marking_ = true;
    device_.forget_marks();
    order_.clear();
    marks_ = {device_.mark()};
  }
  void read_plain() {
    device_.synchronize();
    for (std::size_t i = 1; i < ends_.size(); ++i) plain_ms.push_back(device_.milliseconds(ends_[i - 1], ends_[i]));
  }
  void read_marked() {
    device_.synchronize();
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Readings& r = readings[order_[i]];
      r.ms.resize(marked_ms.size() + 1);
      r.ms.back() += device_.milliseconds(marks_[i], marks_[i + 1]);
      ++r.times;
    }
    marked_ms.push_back(device_.milliseconds(marks_.front(), marks_.back()));
  }

  Device& device_;
  int steps_;
  ExecutionWatcher* next_;
  std::vector<int> ends_, marks_;
  std::vector<Timed> order_;  // what ran before marks_[i + 1]
  bool marking_ = false;
};

// A row while it is summed: of each timed step its time in forward, backward and update.
struct Sum {
  TimeRow row;
  std::array<std::vector<double>, 3> ms;
};

void add(Sum& sum, int part, const Readings& readings, const Work& work, double least_ms) {
  std::vector<double>& ms = sum.ms[index(part)];
  ms.resize(std::max(ms.size(), readings.ms.size()));
  for (std::size_t i = 0; i < readings.ms.size(); ++i) ms[i] += readings.ms[i];
  sum.row.operations += readings.times;
  sum.row.flops += readings.times * (work.product_flops + work.plain_flops);
  sum.row.bytes += readings.times * work.bytes;
  sum.row.least_ms += static_cast<double>(readings.times) * least_ms;
}

std::vector<TimeRow> rows_of(std::map<std::string, Sum>& sums) {
  std::vector<TimeRow> rows;
  for (auto& [name, sum] : sums) {
    sum.row.name = name;
    std::vector<double> total;
    for (const std::vector<double>& ms : sum.ms) {
      total.resize(std::max(total.size(), ms.size()));
      for (std::size_t i = 0; i < ms.size(); ++i) total[i] += ms[i];
    }
    sum.row.forward_ms = spread_of(sum.ms[0]).median;
    sum.row.backward_ms = spread_of(sum.ms[1]).median;
    sum.row.update_ms = spread_of(sum.ms[2]).median;
    sum.row.total_ms = spread_of(total);
    rows.push_back(std::move(sum.row));
  }
  std::ranges::stable_sort(rows,
                           [](const TimeRow& a, const TimeRow& b) { return a.total_ms.median > b.total_ms.median; });
  return rows;
}

class TimeTables {
 public:
  TimeTables(const RankStep& rank, const Peaks& peaks) : rank_(rank), peaks_(peaks) {}

  void add(const Timed& what, const Readings& readings) {
    what.step == kNone ? add_update(what, readings) : add_operation(what, readings);
  }
  void finish(StepTimes& times) {
    times.least_ms = least_ms_;
    times.layers = rows_of(layers_);
    times.classes = rows_of(classes_);
    times.operations = rows_of(operations_);
  }

 private:
  void add_operation(const Timed& what, const Readings& readings) {
    const ScheduledOp& step = rank_.micro_batches.schedules[what.pass].ops[index(what.step)];
    const Calls& calls = rank_.micro_batches.calls[what.pass];
    const auto call = std::ranges::lower_bound(calls.calls, what.step, {}, &KernelCall::step);
    const Work work = work_of(step, *call, calls, rank_.run.tf32);
    const std::string& layer = step.layer == kNone ? kNoLayer : rank_.graph.layers[index(step.layer)].name;
    add_to_all(layer, class_name(*step.what), step.name, step.phase == Phase::backward ? 1 : 0, readings, work);
  }
  void add_update(const Timed& what, const Readings& readings) {
    const Schedule& schedule = rank_.micro_batches.schedules.front();
    const bool clips = what.part == OptimizerPart::clip;
    const Work work =
        clips ? clip_work(rank_.graph, schedule, rank_.optimizer) : update_work(rank_.graph, schedule, rank_.optimizer);
    if (clips || what.part == OptimizerPart::step)
      add_to_all(kOptimizer, "optimizer", clips ? "clip_grad_norm_" : "optimizer.step", 2, readings, work);
  }
  void add_to_all(const std::string& layer, std::string_view of_class, std::string_view name, int part,
                  const Readings& readings, const Work& work) {
    const double least = least_milliseconds(work, peaks_);
    least_ms_ += static_cast<double>(readings.times) * least;
    gpuplan::add(layers_[layer], part, readings, work, least);
    gpuplan::add(classes_[std::string(of_class)], part, readings, work, least);
    gpuplan::add(operations_[std::string(name)], part, readings, work, least);
  }

  const std::string kNoLayer = "(no layer)", kOptimizer = "(optimizer)";
  const RankStep& rank_;
  const Peaks& peaks_;
  double least_ms_ = 0;
  std::map<std::string, Sum> layers_, classes_, operations_;
};

double per_second(std::int64_t amount, double ms) { return ms > 0 ? static_cast<double>(amount) / ms * 1000 : 0; }

}  // namespace

int timed_execution_steps(int steps) { return kWarmUpSteps + 2 * steps; }

Spread spread_of(std::vector<double> readings) {
  if (readings.empty()) return {};
  std::ranges::sort(readings);
  const std::size_t half = readings.size() / 2;
  const double median = readings.size() % 2 == 1 ? readings[half] : (readings[half - 1] + readings[half]) / 2;
  return {median, readings.front(), readings.back()};
}

double TimeRow::flops_per_second() const { return per_second(flops, total_ms.median); }
double TimeRow::bytes_per_second() const { return per_second(bytes, total_ms.median); }
double TimeRow::roofline() const { return total_ms.median > 0 ? least_ms / total_ms.median : 0; }

StepTimes time_steps(Device& device, const RankStep& rank, int steps, const Peaks& peaks, ExecutionWatcher* watcher) {
  StepTimer timer(device, steps, watcher);
  ExecutionOptions options;
  options.reads_losses = options.reads_memory = false;
  options.steps = timed_execution_steps(steps);
  options.watcher = &timer;
  const ExecutionResult result = run(device, rank, options);
  if (result.within.out_of_memory) throw Error("memory ran out while the steps were timed", ErrorKind::environment);
  StepTimes times;
  times.peaks = peaks;
  times.warm_up_steps = kWarmUpSteps;
  times.steps_ms = std::move(timer.plain_ms);
  times.marked_ms = std::move(timer.marked_ms);
  TimeTables tables(rank, peaks);
  for (auto& [what, readings] : timer.readings) {
    readings.times /= steps;
    tables.add(what, readings);
  }
  tables.finish(times);
  return times;
}

}  // namespace gpuplan
