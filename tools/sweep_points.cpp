#include "tools/sweep_points.h"

#include <algorithm>
#include <utility>

#include "estimator/device/arithmetic.h"
#include "estimator/integers.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/figures.h"
#include "layers/catalog.h"
#include "tools/planning.h"
#include "tools/words.h"

namespace gpuplan {

SweepPoints::SweepPoints(RunOptions base, std::vector<SweptFlag> flags)
    : base_(std::move(base)), flags_(std::move(flags)) {
  refuse_given_flags();
  std::int64_t count = 1;
  for (const SweptFlag& flag : flags_) count = checked_mul(count, static_cast<std::int64_t>(flag.values.size()));
  count_ = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < flags_.size(); ++i) check_values(i);
  load_gpus();
}

void SweepPoints::refuse_given_flags() const {
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    const std::string& name = flags_[i].name;
    if (const std::string given = flag_value(base_, name); !given.empty())
      throw Error("--over " + name + " and a " + name + " of " + given + " contradict each other", ErrorKind::usage);
    for (std::size_t k = 0; k < i; ++k)
      if (flags_[k].name == name) throw Error("--over " + name + " is given twice", ErrorKind::usage);
    if (base_.model == "-" && changes_model(name))
      throw Error("--over " + name + " reads the model again for each value: put it into a file", ErrorKind::usage);
  }
}

std::vector<std::string> SweepPoints::names() const {
  std::vector<std::string> names;
  for (const SweptFlag& flag : flags_) names.push_back(flag.name);
  return names;
}

std::vector<std::string> SweepPoints::values_of(std::size_t point) const {
  std::vector<std::string> values(flags_.size());
  for (std::size_t i = flags_.size(); i-- > 0; point /= flags_[i].values.size())
    values[i] = flags_[i].values[point % flags_[i].values.size()];
  return values;
}

RunOptions SweepPoints::options_of(std::size_t point) const {
  RunOptions options = base_;
  const std::vector<std::string> values = values_of(point);
  for (std::size_t i = 0; i < flags_.size(); ++i) set_flag(options, flags_[i].name, values[i]);
  return options;
}

// A value is good if some combination can use it: 4 micro-batches do not split a batch of 2, but one of 8.
void SweepPoints::check_values(std::size_t flag) const {
  constexpr std::size_t kTries = 10'000;
  const std::size_t values = flags_[flag].values.size();
  std::size_t inner = 1;  // points between two values of this flag
  for (std::size_t i = flag + 1; i < flags_.size(); ++i) inner *= flags_[i].values.size();
  for (std::size_t v = 0; v < values; ++v) {
    std::optional<Error> first;
    for (std::size_t other = 0; other < std::min(count_ / values, kTries); ++other) {
      try {
        const RunOptions options = options_of((other / inner * values + v) * inner + other % inner);
        (void)run_config(options);
        (void)host_copy(options);
        first.reset();
        break;
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
    if (first) throw *first;
  }
}

void SweepPoints::load_gpus() {
  const auto add = [&](const std::string& text) {
    RunOptions options;
    options.gpu = text;
    if (const std::optional<Gpu> gpu = load_gpu(options))
      gpus_.emplace(text, SweptGpu{*gpu, size_in_bytes(text).has_value(), text});
  };
  add(base_.gpu);
  for (const SweptFlag& flag : flags_)
    if (flag.name == "gpu") std::ranges::for_each(flag.values, add);
  for (auto at = gpus_.begin(); at != gpus_.end(); ++at) {
    const SweptGpu& on = at->second;
    at->second.alike = std::find_if(gpus_.begin(), at, [&](const auto& other) {
                         return reserve_alike(other.second.gpu, on.gpu);
                       })->first;
  }
}

// The model changes with some flags only; it is read once for each of their combinations.
std::shared_ptr<const Model> SweepPoints::model_of(const RunOptions& options) {
  std::string key;
  for (const SweptFlag& flag : flags_)
    if (changes_model(flag.name)) key += flag_value(options, flag.name) + '\n';
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = models_.try_emplace(key);
  if (is_new) {
    try {
      at->second.model = std::make_shared<const Model>(load_model(options));
    } catch (const Error& error) {
      at->second.error = error;
    }
  }
  if (at->second.error) throw *at->second.error;
  return at->second.model;
}

std::string SweepPoints::group_of(std::size_t point) const {
  const std::vector<std::string> values = values_of(point);
  std::string group, on;
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    if (flags_[i].name == "gpu")
      on = gpus_.at(values[i]).alike;
    else if (flags_[i].name != "host-copy")
      group += values[i] + '\n';
  }
  return group + on;
}

bool SweepPoints::has_times(const RunOptions& options) const {
  return !options.gpu.empty() && !gpus_.at(options.gpu).is_limit;
}

SweepFigures SweepPoints::figures_of(std::size_t point, Group& group) {
  const RunOptions options = options_of(point);
  const RunConfig run = run_config(options);
  if (!group.model) group.model = model_of(options);
  const SweptGpu* const on = options.gpu.empty() ? nullptr : &gpus_.at(options.gpu);
  if (on != nullptr) refuse_arithmetic(run, on->gpu);
  if (!group.step)
    group.step.emplace(*group.model, make_catalog(), run, on == nullptr ? assumed_gpu() : on->gpu, group.timed);
  PlannedFigures planned = group.step->figures(on == nullptr ? nullptr : &on->gpu);
  if (on != nullptr && on->is_limit) planned.warnings.emplace_back(kOnlyALimit);
  if (options.strict && !planned.warnings.empty()) throw Error("--strict: " + planned.warnings.front());
  if (has_times(options)) {
    if (const std::optional<StepTime> time = group.step->time(on->gpu, host_copy(options))) {
      planned.figures.step_seconds = time->seconds();
      planned.figures.samples_per_second = static_cast<double>(time->samples) / time->seconds();
    }
  }
  if (planned.warnings.empty()) return planned.figures;
  const std::lock_guard lock(mutex_);
  for (const std::string& warning : planned.warnings) ++warnings_[warning];
  return planned.figures;
}

std::vector<SweepRow> SweepPoints::plan_points(std::span<const std::size_t> points) {
  Group group;
  group.timed = std::ranges::any_of(points, [&](std::size_t point) { return has_times(options_of(point)); });
  std::vector<SweepRow> rows;
  for (const std::size_t point : points) {
    SweepRow& row = rows.emplace_back();
    row.point = static_cast<std::int64_t>(point);
    row.values = values_of(point);
    try {
      row.figures = figures_of(point, group);
    } catch (const Error& error) {
      row.error = error.message();
    }
  }
  return rows;
}

void SweepPoints::throw_reason(std::size_t point) {
  Group group;
  (void)figures_of(point, group);
  throw Error("no point of the sweep can be planned");
}

}  // namespace gpuplan
