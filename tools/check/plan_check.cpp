#include "tools/check/plan_check.h"

#include <algorithm>
#include <new>

#include "estimator/plan/plan.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/writers.h"
#include "estimator/search/device_bytes.h"
#include "estimator/search/fit.h"
#include "estimator/search/suggestions_under.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/answers/every_rank.h"
#include "tools/answers/library_loop.h"
#include "tools/answers/plan_page.h"
#include "tools/answers/planning.h"
#include "tools/check/budget_file.h"
#include "tools/check/cause_lines.h"
#include "tools/check/changes.h"
#include "tools/check/price.h"
#include "tools/check/recorded.h"
#include "tools/check/settings.h"
#include "tools/check/side_plan.h"
#include "tools/options/commit_model.h"
#include "tools/options/instance_input.h"
#include "tools/options/words.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

SourceMark gpu_mark(const Check& check) {
  for (auto s = check.settings.rbegin(); s != check.settings.rend(); ++s)
    if (s->key == "gpu" || s->key == "device") return s->mark;
  return check.mark;
}

bool limits(const Check& check, Figure figure) {
  return std::ranges::any_of(check.limits, [&](const Threshold& t) { return t.figure == figure; }) ||
         std::ranges::any_of(check.growth, [&](const Growth& g) { return g.figure == figure; });
}

// What a model extends has to lie where the model has to. It is not opened elsewhere: an error would quote it.
decltype(SpecOptions::open) within(const std::filesystem::path& top, decltype(SpecOptions::open) open) {
  return [top, open = std::move(open)](std::string_view name, std::string_view relative_to) {
    const bool in_zoo = name.starts_with("zoo:") || relative_to.starts_with("zoo:");
    if (!in_zoo) refuse_outside(std::filesystem::path(relative_to).parent_path() / std::filesystem::path(name), top);
    return open(name, relative_to);
  };
}

void set_error(const Error& error, CheckResult& result) {
  result.state = State::error;
  result.error = one_line(error);
  result.error_report = error.render();
  if (error.line() == 0) return;
  result.error_at.file = error.file();
  result.error_at.line = error.line();
}

}  // namespace

CheckPlanner::CheckPlanner(std::optional<std::filesystem::path> top, Baseline* base, Day today, bool trusts_code)
    : top_(std::move(top)), base_(base), today_(today), trusts_code_(trusts_code) {}

CheckResult CheckPlanner::run(const Check& check) {
  CheckResult result;
  result.check = check;
  try {
    if (top_) refuse_foreign_model(check, *top_);
    const CheckSide head = is_recorded_file(check.model)        ? recorded_head(check, result)
                           : is_library_loop(options_of(check)) ? library_head(check, result)
                                                                : plan_head(check, result);
    result.measured = head.measured;
    const std::optional<CheckSide> base = base_ != nullptr ? base_side(check, result) : std::nullopt;
    if (base) {
      result.base = base->measured.figures;
      note_unknown_figures(check, *base, result);
      result.limit_changes = changed_limits(check, base->check);
    }
    Check judged = check;
    // The commit that is checked cannot owe its debts to itself.
    if (base_ != nullptr && base_->is_head) judged.inherited = Level::error;
    result.assertions =
        judge(judged, head.measured, base ? &base->measured : nullptr, plan_fits(check, head, base ? &*base : nullptr));
    result.state = state_of(check, result.assertions, today_);
    if (result.state != State::ok && base && base->planned && head.planned) add_causes(head, *base, result);
    if (result.state == State::fail && head.planned) explain(head, result);
  } catch (const Error& error) {
    // A base that the clone lacks, or a model that Git LFS has not fetched, is no verdict on anything.
    if (error.kind() == ErrorKind::environment) throw;
    // Of a check of the command line no file says what is wrong.
    if (!top_ && error.kind() == ErrorKind::usage) throw Error(error.message(), ErrorKind::usage).help(error.advice());
    set_error(error, result);
  } catch (const std::bad_alloc&) {
    set_error(Error("out of memory"), result);
  } catch (const std::exception& bug) {
    set_error(internal_error(bug), result);
    result.crashed = true;
  }
  return result;
}

// A recording has figures, and no model that could be planned otherwise. It is of one run: defaults are not about it.
CheckSide CheckPlanner::recorded_head(const Check& check, CheckResult& result) {
  if (!check.modules.empty())
    throw Error(check.model + " is a recording, which has no modules").at(check.modules[0].mark);
  Check own = check;
  std::erase_if(own.settings, [](const Setting& s) { return s.by_default; });
  if (const Setting* const gpus = setting_of_gpus(own))
    throw Error(gpus->written + ": " + check.model + " is a recording of one process, as it was").at(gpus->mark);
  CheckSide side;
  side.check = check;
  try {
    Recorded recorded = recorded_figures(read_recorded(check.model, check.model), options_of(own));
    side.measured = std::move(recorded.measured);
    result.warnings = std::move(recorded.warnings);
  } catch (const Error& error) {
    throw Error(error).at(own.settings.empty() ? check.model_mark : own.settings.front().mark);
  }
  return side;
}

// A library's own code is run, on each GPU that the step shall fit; it has no model that could be planned otherwise.
CheckSide CheckPlanner::library_head(const Check& check, CheckResult& result) {
  RunOptions options = options_of(check);
  options.model = check.model;
  options.trusts_code = trusts_code_;
  const std::string asked = library_asked(options);
  if (!check.modules.empty()) throw Error(asked + " is run as it is, without modules").at(check.modules[0].mark);
  CheckSide side;
  side.check = check;
  try {
    result.run = run_words(library_config(options)) + ", " + asked;
    PlannedFigures planned = library_figures(options, nullptr, several_of(check));
    side.measured = measured_of(planned.figures);
    const SweepFigures& at = planned.figures;
    result.peak_place = at.where.empty() || at.where == at.phase ? at.phase : at.phase + " of " + at.where;
    result.warnings = std::move(planned.warnings);
    for (const FitsOn& on : check.fits) {
      options.gpu = on.gpu;
      side.fits[gpu_at(on).title] = library_figures(options, nullptr, several_of(check)).figures.device_bytes;
    }
  } catch (const Error& error) {
    throw Error(error).at(mark_of(error, check, check.model_mark));
  }
  return side;
}

// Growth that cannot be measured is said, not passed over.
void CheckPlanner::note_unknown_figures(const Check& check, const CheckSide& base, CheckResult& result) {
  for (const Growth& g : check.growth)
    if (!base.measured.figures[g.figure])
      result.warnings.push_back(check.name + ": the base has no " + std::string(name_of(g.figure)) +
                                ", so its growth is not known");
}

// All of it but the model.
Planning CheckPlanner::prepare(const Check& check, const RunOptions& options) {
  Planning planning;
  planning.run = run_of(check, options);
  planning.copy = host_copy(options);
  planning.gpu_is_limit = size_in_bytes(options.gpu).has_value();
  if (options.gpu.empty()) return planning;
  try {
    planning.gpu = gpu_of(options.gpu);
  } catch (const Error& error) {
    throw Error(error).at(gpu_mark(check));
  }
  return planning;
}

CheckSide CheckPlanner::plan_head(const Check& check, CheckResult& result) {
  RunOptions options = options_of(check);
  options.model = check.model;
  options.trusts_code = trusts_code_;
  CheckSide side;
  side.check = check;
  side.planning = prepare(check, options);
  try {
    side.written = open_model(options);
    if (top_) side.written.options.open = within(*top_, side.written.options.open);
    side.planning.model = read_model(side.written.source, side.written.options);
    side.planning.warnings = about_stored_type(side.written.stored_type, options);
    side.strategy = strategy_of(check);
    PlannedReport planned = planned_of(side.planning, side);
    if (keeps_memory_) result.memory = memory_of(check.name, planned.plan);
    side.report = std::move(planned.report);
  } catch (const Error& error) {
    throw Error(error).at(check.model_mark);  // where it points nowhere yet
  }
  finish(check, side, &result.price);
  result.run = run_words(side.planning.run);
  if (side.strategy)
    result.run +=
        ", " + std::string(name_of(side.strategy->data)) + " on " + format_count(side.strategy->gpus) + " GPUs";
  result.peak_place = peak_place(side.report);
  result.parts = side.report.peak.parts;
  result.modules = side.report.peak.modules;
  result.warnings = side.report.warnings;
  return side;
}

// The figures of a planned side, as `check` asks for them.
void CheckPlanner::finish(const Check& check, CheckSide& side, std::string* price) {
  side.planned = true;
  side.measured = measure(side.report, check);
  if (!limits(check, Figure::cost) || !side.planning.gpu || !side.report.time) return;
  if (const auto cost = sample_price(*side.report.time, side.planning.gpu->name, instances())) {
    side.measured.figures[Figure::cost] = cost->micro_usd;
    if (price != nullptr) *price = cost->made_of;
  }
}

// Nothing where the base has no such check or it cannot be planned, which the result then says.
std::optional<CheckSide> CheckPlanner::base_side(const Check& check, CheckResult& result) {
  try {
    CheckSide side;
    {
      const std::lock_guard lock(mutex_);  // of what reads from git
      BaseCheck before = base_->find(check);
      result.base_note = before.note;
      if (before.check) side.check = *before.check;
      if (before.measured) {
        side.measured = std::move(*before.measured);
        side.fits = std::move(before.fits);
        if (!before.check) side.check = check;
        return side;
      }
      if (!before.check || !before.model) return std::nullopt;
      if (is_library_loop(options_of(side.check))) {
        result.base_note = "a library's own code is not run for the base";
        return side;
      }
      side.written = std::move(*before.model);
      side.planning.model = read_model(side.written.source, side.written.options);
    }
    Model model = std::move(side.planning.model);
    side.planning = prepare(side.check, options_of(side.check));
    side.planning.model = std::move(model);
    side.strategy = strategy_of(side.check);
    side.report = planned_of(side.planning, side).report;
    finish(check, side, nullptr);
    result.base_parts = side.report.peak.parts;
    return side;
  } catch (const Error& error) {
    if (!base_->may_be_broken && error.kind() == ErrorKind::environment) throw;
    if (!base_->may_be_broken) throw broken_base("the base cannot be planned", error).at(check.model_mark);
    result.base_note = "the base cannot be planned: " + one_line(error);
    result.warnings.push_back(check.name + ": " + result.base_note + "; its growth is not checked");
    return std::nullopt;
  }
}

std::vector<FitsFigures> CheckPlanner::plan_fits(const Check& check, const CheckSide& head, const CheckSide* base) {
  const auto bytes_on = [](const CheckSide& side, const Gpu& gpu) -> std::optional<std::int64_t> {
    if (side.planned) return device_bytes_on(side, gpu);
    const auto saved = side.fits.find(gpu.title);
    return saved != side.fits.end() ? std::optional(saved->second) : side.measured.figures[Figure::device];
  };
  std::vector<FitsFigures> fits;
  for (const FitsOn& on : check.fits) {
    const Gpu gpu = gpu_at(on);
    for (const FitsFigures& other : fits)
      if (other.title == gpu.title) throw Error(gpu.title + " is listed twice").at(on.mark).label("under another name");
    try {
      fits.push_back({.title = gpu.title,
                      .device_bytes = bytes_on(head, gpu).value_or(0),
                      .usable_bytes = usable_bytes(gpu),
                      .mark = on.mark,
                      .base_bytes = base != nullptr ? bytes_on(*base, gpu) : std::nullopt});
    } catch (const Error& error) {
      throw Error(error).at(on.mark);
    }
  }
  return fits;
}

void CheckPlanner::add_causes(const CheckSide& head, const CheckSide& base, CheckResult& result) {
  CheckCauses causes;
  {
    const std::lock_guard lock(mutex_);  // what the base's model extends is read from git
    causes = check_causes(head, base);
  }
  const Assertion& broken = *lead(result);
  const std::optional<Gpu> fits = gpu_of_fits(broken, result.check);
  const OtherPlans plans{.prepare = [&](const Check& check) { return prepare(check, options_of(check)); },
                         .figure =
                             [&](const Planning& planning, const Check& check) {
                               CheckSide side;
                               side.check = check;
                               side.planning = planning;
                               side.strategy = strategy_of(check);
                               return figure_of(broken, side, fits ? &*fits : nullptr);
                             }};
  tell_causes(causes, head, base, broken, plans, result);
}

// Changes that get the figure under its limit, where it is about memory.
void CheckPlanner::explain(const CheckSide& head, CheckResult& result) {
  const Assertion& broken = *lead(result);
  const bool above = broken.kind == Assertion::Kind::max || broken.kind == Assertion::Kind::growth ||
                     broken.kind == Assertion::Kind::fits;
  if (!above || unit_of(broken.figure) != Unit::bytes) return;
  std::optional<Gpu> gpu = gpu_of_fits(broken, result.check);
  if (!gpu) gpu = head.planning.gpu;
  Planning planning = head.planning;
  planning.gpu = gpu;
  const Ceiling ceiling{.amount =
                            [&](const RunConfig& run) {
                              planning.run = run;
                              return *figure_values(planned_of(planning, head).report)[broken.figure];
                            },
                        .most = broken.limit,
                        .ranks = head.strategy ? head.strategy->sample_groups() : 1};
  for (SuggestionUnder& way : suggestions_under(head.planning.model, head.planning.run, gpu ? &*gpu : nullptr, ceiling))
    result.suggestions.push_back({.flags = std::move(way.flags), .figure = broken.figure, .value = way.amount});
}

// The GPU that a limit of `fits` is about.
std::optional<Gpu> CheckPlanner::gpu_of_fits(const Assertion& a, const Check& check) {
  for (const FitsOn& on : check.fits)
    if (a.kind == Assertion::Kind::fits && on.mark.line == a.mark.line && on.mark.column == a.mark.column)
      return gpu_of(on.gpu);
  return std::nullopt;
}

Gpu CheckPlanner::gpu_at(const FitsOn& on) {
  try {
    Gpu gpu = gpu_of(on.gpu);
    if (usable_bytes(gpu) <= 0) throw Error("how much memory " + gpu.title + " has is not known");
    return gpu;
  } catch (const Error& error) {
    throw Error(error).at(on.mark);
  }
}

Gpu CheckPlanner::gpu_of(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto at = gpus_.find(text);
  if (at != gpus_.end()) return at->second;
  if (top_ && is_gpu_file(text)) refuse_outside(text, *top_);
  RunOptions options;
  options.gpu = text;
  return gpus_.emplace(text, *load_gpu(options)).first->second;
}

const std::vector<Instance>& CheckPlanner::instances() {
  const std::lock_guard lock(mutex_);
  if (!instances_) {
    const std::vector<Gpu> gpus = gpu_table();
    instances_ = load_instances("", gpus);
  }
  return *instances_;
}

}  // namespace gpuplan
