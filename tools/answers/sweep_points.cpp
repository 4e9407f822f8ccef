#include "tools/answers/sweep_points.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/figures.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tools/answers/library_loop.h"
#include "tools/answers/plan_page.h"
#include "tools/answers/planning.h"
#include "tools/answers/shared_planning.h"
#include "tools/options/commit_model.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {

SweepPoints::SweepPoints(RunOptions base, std::vector<SweptFlag> flags, SeveralGpusOptions several)
    : base_{std::move(base), std::move(several)}, flags_(std::move(flags)) {
  refuse_given_flags();
  find_kinds();
  std::int64_t count = 1;
  for (const SweptFlag& flag : flags_) count = checked_mul(count, static_cast<std::int64_t>(flag.values.size()));
  count_ = static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < flags_.size(); ++i) check_values(i);
  load_gpus();
}

void SweepPoints::refuse_given_flags() {
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    const std::string& name = flags_[i].name;
    const std::string* const several = several_gpus_flag(base_.several, name);
    if (const std::string given = several != nullptr ? *several : flag_value(base_.run, name); !given.empty())
      throw Error("--over " + name + " contradicts the given " + name + " " + given, ErrorKind::usage);
    for (std::size_t k = 0; k < i; ++k)
      if (flags_[k].name == name) throw Error("--over " + name + " is given twice", ErrorKind::usage);
    if (changes_model(name) && is_stream(base_.run.model))
      throw Error("--over " + name +
                      " reads the model once per value, which standard input cannot provide: put the model into a file",
                  ErrorKind::usage);
  }
}

namespace {

bool is_ddp(DataParallel kind) { return kind == DataParallel::ddp || kind == DataParallel::zero1; }

}  // namespace

void SweepPoints::find_kinds() {
  for (const SweptFlag& flag : flags_)
    for (const std::string& value : flag.values) {
      if (flag.name != "zero") continue;
      sweeps_ddp_ = sweeps_ddp_ || is_ddp(data_parallel_kind(value));
      sweeps_fsdp_ = sweeps_fsdp_ || data_parallel_kind(value) == DataParallel::fsdp;
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

SweepPoints::PointOptions SweepPoints::options_of(std::size_t point) const {
  PointOptions options = base_;
  const std::vector<std::string> values = values_of(point);
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    if (std::string* const several = several_gpus_flag(options.several, flags_[i].name))
      *several = values[i];
    else
      set_flag(options.run, flags_[i].name, values[i]);
  }
  // Where several ways to share a step are swept, what is of one of them is of its points.
  SeveralGpusOptions& several = options.several;
  const DataParallel kind = several.zero.empty() ? DataParallel::ddp : data_parallel_kind(several.zero);
  if (sweeps_ddp_ && !is_ddp(kind)) several.bucket_view = several.find_unused = false;
  if (sweeps_fsdp_ && kind != DataParallel::fsdp) {
    several.wrap.clear();
    several.fsdp.clear();
    several.keep_unsharded = false;
  }
  return options;
}

namespace {

RunConfig run_of(const RunOptions& options) {
  return is_library_loop(options) ? library_config(options) : run_config(options);
}

}  // namespace

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
        const PointOptions options = options_of((other / inner * values + v) * inner + other % inner);
        const RunConfig run = run_of(options.run);
        (void)host_copy(options.run);
        (void)topology_of(options.several, std::nullopt);
        if (const std::optional<Strategy> strategy = strategy_of(options.several))
          (void)run_of_rank(run, in_mode(*strategy, run.mode, options.several));
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
    options.margin = base_.run.margin;
    std::optional<Gpu> gpu = load_gpu(options);
    const Margin margin = take_margin(options, gpu);
    if (gpu) gpus_.emplace(text, SweptGpu{*gpu, size_in_bytes(text).has_value(), text, margin});
  };
  bool sweeps_gpus = false;
  for (const SweptFlag& flag : flags_)
    if (flag.name == "gpu") {
      sweeps_gpus = true;
      std::ranges::for_each(flag.values, add);
    }
  if (!sweeps_gpus) add(base_.run.gpu);
  for (auto at = gpus_.begin(); at != gpus_.end(); ++at) {
    const SweptGpu& on = at->second;
    at->second.alike = std::find_if(gpus_.begin(), at, [&](const auto& other) {
                         return reserve_alike(other.second.gpu, on.gpu);
                       })->first;
  }
}

// The model changes with some flags only; it is read once for each of their combinations.
const SweepPoints::ReadModel& SweepPoints::model_of(const PointOptions& options) {
  const std::optional<Strategy> strategy = strategy_of(options.several);
  const SharingRanks ranks{.context = strategy && !strategy->is_megatron() ? strategy->context : 1};
  std::string key = std::to_string(ranks.context) + '\n';
  for (const SweptFlag& flag : flags_)
    if (changes_model(flag.name)) key += flag_value(options.run, flag.name) + '\n';
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = models_.try_emplace(key);
  if (is_new) {
    try {
      WrittenModel written = open_model(options.run);
      at->second.model = read_part(written, ranks);
      at->second.stored_type = written.stored_type;
    } catch (const Error& error) {
      at->second.error = error;
    }
  }
  if (at->second.error) throw *at->second.error;
  return at->second;
}

bool SweepPoints::has_times(const RunOptions& options) const {
  return !options.gpu.empty() && !gpus_.at(options.gpu).is_limit;
}

PlannedFigures SweepPoints::planned(const PointOptions& options, const RunConfig& run, const SweptGpu* on,
                                    Group& group) const {
  const Gpu* const gpu = on == nullptr ? nullptr : &on->gpu;
  const bool timed = has_times(options.run);
  const HostCopy copy = host_copy(options.run);
  if (const std::optional<Strategy> strategy = strategy_of(options.several)) {
    const Topology topology = topology_of(options.several, gpu == nullptr ? std::nullopt : std::optional(*gpu));
    return rank_figures(*group.model->model, make_catalog(), run, in_mode(*strategy, run.mode, options.several),
                        topology, gpu, timed ? std::optional(copy) : std::nullopt);
  }
  if (group.plan == nullptr)
    group.plan = &group.own.emplace(make_plan(*group.model->model, make_catalog(), run, gpu, {}, group.timed));
  group.plan->move_to(gpu);
  PlannedFigures planned = gpuplan::figures_of(*group.plan);
  if (timed && !on_host(run))
    if (const std::optional<StepTime> time = step_time(group.plan->step, copy)) {
      planned.figures.step_seconds = time->seconds();
      planned.figures.samples_per_second = static_cast<double>(time->samples) / time->seconds();
    }
  return planned;
}

// Each is a run of the library's own code.
PlannedFigures SweepPoints::learned(const PointOptions& options, const SweptGpu* on) {
  return library_figures(options.run, on == nullptr ? nullptr : &on->gpu, options.several);
}

PlannedFigures SweepPoints::ruled(const PointOptions& options, const SweptGpu* on, Group& group) {
  const RunConfig run = run_config(options.run);
  if (group.model == nullptr) group.model = &model_of(options);
  if (on != nullptr) refuse_arithmetic(run, on->gpu);
  PlannedFigures planned = this->planned(options, run, on, group);
  for (std::string& warning : about_stored_type(group.model->stored_type, options.run))
    planned.warnings.push_back(std::move(warning));
  return planned;
}

SweepFigures SweepPoints::figures_of(std::size_t point, Group& group) {
  const PointOptions options = options_of(point);
  const SweptGpu* const on = options.run.gpu.empty() ? nullptr : &gpus_.at(options.run.gpu);
  PlannedFigures planned = is_library_loop(options.run) ? learned(options, on) : ruled(options, on, group);
  if (on != nullptr && on->margin.hundredths > 0) planned.figures.usable_bytes = on->margin.usable_bytes;
  if (on != nullptr && on->is_limit) planned.warnings.emplace_back(kOnlyALimit);
  if (options.run.strict && !planned.warnings.empty()) throw Error("--strict: " + planned.warnings.front());
  if (planned.warnings.empty()) return planned.figures;
  const std::lock_guard lock(mutex_);
  for (const std::string& warning : planned.warnings) ++warnings_[warning];
  return planned.figures;
}

std::vector<SweepRow> SweepPoints::plan_group(std::span<const std::size_t> points, Plan* known) {
  Group group;
  group.plan = known;
  group.timed = std::ranges::any_of(points, [&](std::size_t point) { return has_times(options_of(point).run); });
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

std::string SweepPoints::memory_of_point(std::size_t point) {
  const PointOptions options = options_of(point);
  if (is_library_loop(options.run) || strategy_of(options.several)) return "";
  std::string name;
  const std::vector<std::string> values = values_of(point);
  for (std::size_t i = 0; i < flags_.size(); ++i) name += (i > 0 ? ", " : "") + flags_[i].name + " " + values[i];
  const SweptGpu* const on = options.run.gpu.empty() ? nullptr : &gpus_.at(options.run.gpu);
  const Plan plan =
      make_plan(*model_of(options).model, make_catalog(), run_config(options.run), on == nullptr ? nullptr : &on->gpu);
  return memory_of(name, plan);
}

void SweepPoints::throw_reason(std::size_t point) {
  Group group;
  group.timed = has_times(options_of(point).run);
  (void)figures_of(point, group);
  throw Error("no point of the sweep can be planned");
}

}  // namespace gpuplan
