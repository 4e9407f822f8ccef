#include "tools/check/plan_check.h"

#include <algorithm>
#include <cmath>

#include "estimator/plan.h"
#include "estimator/report/run_names.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"
#include "estimator/search/fit.h"
#include "estimator/search/ways_under.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/check/budget_file.h"
#include "tools/check/recorded.h"
#include "tools/check/settings.h"
#include "tools/commit_model.h"
#include "tools/instance_input.h"
#include "tools/planning.h"
#include "tools/words.h"

namespace gpuplan {
namespace {

SourceMark gpu_mark(const Check& check) {
  for (auto s = check.settings.rbegin(); s != check.settings.rend(); ++s)
    if (s->key == "gpu" || s->key == "device") return s->mark;
  return check.mark;
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

bool limits(const Check& check, Figure figure) {
  return std::ranges::any_of(check.limits, [&](const Threshold& t) { return t.figure == figure; }) ||
         std::ranges::any_of(check.growth, [&](const Growth& g) { return g.figure == figure; });
}

// Run flags that the base's gpuplan.yaml had otherwise. Of a key that is given twice the last one holds.
std::vector<CauseLine> changed_settings(const Check& head, const Check& base) {
  const auto last = [](const Check& check, const std::string& key) -> const Setting* {
    const auto at =
        std::find_if(check.settings.rbegin(), check.settings.rend(), [&](const Setting& s) { return s.key == key; });
    return at == check.settings.rend() ? nullptr : &*at;
  };
  std::vector<CauseLine> list;
  const auto add = [&](const Setting* now, const Setting* before, const SourceMark& mark) {
    const std::string from = before != nullptr ? before->text : "", to = now != nullptr ? now->text : "";
    if (from != to && mark.source != nullptr)
      list.push_back({.file = mark.source->name,
                      .line = mark.line,
                      .column = mark.column,
                      .what = (now != nullptr ? now : before)->key,
                      .from = from,
                      .to = to});
  };
  for (const Setting& s : head.settings)
    if (last(head, s.key) == &s) add(&s, last(base, s.key), s.mark);
  for (const Setting& s : base.settings)
    if (last(base, s.key) == &s && last(head, s.key) == nullptr) add(nullptr, &s, head.mark);
  if (head.model != base.model)
    list.push_back({.file = head.model_mark.source->name,
                    .line = head.model_mark.line,
                    .column = head.model_mark.column,
                    .what = "model",
                    .from = base.model,
                    .to = head.model});
  return list;
}

// The words of an Error in one line, with its place.
std::string one_line(const Error& error) {
  return error.line() == 0 ? error.message()
                           : error.file() + ":" + std::to_string(error.line()) + ": " + error.message();
}

}  // namespace

// A model planned as the check says.
struct CheckPlanner::Side {
  Planning planning;
  Report report;
  Measured measured;
  WrittenModel written;
  Check check;  // the base's may have other run flags
};

CheckPlanner::CheckPlanner(std::filesystem::path top, Baseline* base, Day today)
    : top_(std::move(top)), base_(base), today_(today) {}

CheckResult CheckPlanner::run(const Check& check) {
  CheckResult result;
  result.check = check;
  try {
    refuse_foreign_model(check, top_);
    if (is_recorded_file(check.model)) {
      judge_recorded(check, result);
      return result;
    }
    const Side head = plan_head(check, result);
    std::optional<Measured> saved;
    const std::optional<Side> base = base_ != nullptr ? plan_base(check, result, saved) : std::nullopt;
    const Measured* const before = base ? &base->measured : saved ? &*saved : nullptr;
    if (before != nullptr) result.base = before->figures;
    std::vector<FitsFigures> fits = plan_fits(check, head, base ? &*base : nullptr);
    result.assertions = judge(check, head.measured, before, fits);
    result.state = state_of(check, result.assertions, today_);
    if (result.state != State::ok && base) add_causes(head, *base, result);
    if (result.state == State::fail) explain(head, result);
  } catch (const Error& error) {
    result.state = State::error;
    result.error = one_line(error);
    result.error_report = error.render();
  }
  return result;
}

// A recording has figures, and no model that could be planned otherwise.
void CheckPlanner::judge_recorded(const Check& check, CheckResult& result) {
  const RunOptions options = options_of(check);
  if (!check.modules.empty()) throw Error(check.model + " is a recording: it has no modules").at(check.modules[0].mark);
  try {
    result.measured = recorded_figures(read_recorded(check.model), options);
  } catch (const Error& error) {
    throw Error(error).at(check.model_mark);
  }
  std::optional<Measured> before;
  if (base_ != nullptr) {
    try {
      const std::lock_guard lock(mutex_);
      BaseCheck base = base_->find(check);
      result.base_note = base.note;
      before = std::move(base.measured);
    } catch (const Error& error) {
      result.base_note = "the base cannot be read: " + one_line(error);
    }
  }
  if (before) result.base = before->figures;
  std::vector<FitsFigures> fits;
  for (const FitsOn& on : check.fits) {
    const Gpu gpu = gpu_at(on);
    fits.push_back({.title = gpu.title,
                    .device_bytes = *result.measured.figures[Figure::device],
                    .usable_bytes = usable_bytes(gpu),
                    .mark = on.mark,
                    .base_bytes = before ? before->figures[Figure::device] : std::nullopt});
  }
  result.assertions = judge(check, result.measured, before ? &*before : nullptr, fits);
  result.state = state_of(check, result.assertions, today_);
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

CheckPlanner::Side CheckPlanner::plan_head(const Check& check, CheckResult& result) {
  RunOptions options = options_of(check);
  options.model = check.model;
  Side side;
  side.check = check;
  side.planning = prepare(check, options);
  try {
    side.written = open_model(options);
    side.planning.model = read_model(side.written.source, side.written.options);
    side.report = make_report(side.planning);
  } catch (const Error& error) {
    throw Error(error).at(check.model_mark);  // where it points nowhere yet
  }
  side.measured = measure(side.report, check);
  result.price = add_cost(check, side);
  result.measured = side.measured;
  result.run = run_words(side.planning.run);
  result.peak_place = peak_place(side.report);
  result.parts = side.report.peak.parts;
  result.modules = side.report.peak.modules;
  result.warnings = side.report.warnings;
  return side;
}

// Nothing where the base has no such check or it cannot be planned, which the result then says, or where `saved` holds
// its figures.
std::optional<CheckPlanner::Side> CheckPlanner::plan_base(const Check& check, CheckResult& result,
                                                          std::optional<Measured>& saved) {
  try {
    Side side;
    {
      const std::lock_guard lock(mutex_);
      BaseCheck before = base_->find(check);
      result.base_note = before.note;
      saved = std::move(before.measured);
      if (!before.check || !before.model) return std::nullopt;
      side.check = std::move(*before.check);
      side.written = std::move(*before.model);
      side.planning.model = read_model(side.written.source, side.written.options);
    }
    Model model = std::move(side.planning.model);
    side.planning = prepare(side.check, options_of(side.check));
    side.planning.model = std::move(model);
    side.report = make_report(side.planning);
    side.measured = measure(side.report, check);
    (void)add_cost(check, side);
    result.base_parts = side.report.peak.parts;
    return side;
  } catch (const Error& error) {
    result.base_note = "the base cannot be planned: " + one_line(error);
    return std::nullopt;
  }
}

std::vector<FitsFigures> CheckPlanner::plan_fits(const Check& check, const Side& head, const Side* base) {
  const auto device_bytes = [](const Planning& planning, const Gpu& gpu) {
    return plan(planning.model, make_catalog(), planning.run, &gpu).peak.device_bytes;
  };
  std::vector<FitsFigures> fits;
  for (const FitsOn& on : check.fits) {
    const Gpu gpu = gpu_at(on);
    try {
      FitsFigures figures{.title = gpu.title,
                          .device_bytes = device_bytes(head.planning, gpu),
                          .usable_bytes = usable_bytes(gpu),
                          .mark = on.mark,
                          .base_bytes = {}};
      if (base != nullptr) figures.base_bytes = device_bytes(base->planning, gpu);
      fits.push_back(std::move(figures));
    } catch (const Error& error) {
      throw Error(error).at(on.mark);
    }
  }
  return fits;
}

// The lines behind a difference: of gpuplan.yaml, and of the model.
void CheckPlanner::add_causes(const Side& head, const Side& base, CheckResult& result) {
  result.causes = changed_settings(head.check, base.check);
  const std::lock_guard lock(mutex_);  // what the base's model extends is read from git
  for (const Cause& cause : causes(base.written, head.written, make_catalog()))
    if (!cause.at.file.empty())
      result.causes.push_back({.file = cause.at.file,
                               .line = cause.at.line,
                               .column = cause.at.column,
                               .what = cause.what + (cause.kind == Cause::Kind::moved ? " moved" : ""),
                               .from = cause.from,
                               .to = cause.to});
}

// Changes that get the figure under its limit, where it is about memory.
void CheckPlanner::explain(const Side& head, CheckResult& result) {
  const Assertion& broken = *lead(result);
  const bool above = broken.kind == Assertion::Kind::max || broken.kind == Assertion::Kind::growth ||
                     broken.kind == Assertion::Kind::fits;
  if (!above || unit_of(broken.figure) != Unit::bytes) return;
  const Ceiling ceiling{.amount = [&](const Report& r) { return *figure_values(r)[broken.figure]; },
                        .most = broken.limit};
  std::optional<Gpu> gpu = head.planning.gpu;
  for (const FitsOn& on : result.check.fits)
    if (broken.kind == Assertion::Kind::fits && on.mark.line == broken.mark.line &&
        on.mark.column == broken.mark.column)
      gpu = gpu_of(on.gpu);
  for (WayUnder& way :
       ways_under(head.planning.model, make_catalog(), head.planning.run, gpu ? &*gpu : nullptr, ceiling))
    result.ways.push_back({.flags = std::move(way.flags), .figure = broken.figure, .value = way.amount});
}

// What a million samples cost, where the check asks. Returns what that is made of.
std::string CheckPlanner::add_cost(const Check& check, Side& side) {
  if (!limits(check, Figure::cost) || !side.planning.gpu || !side.report.time || side.report.time->samples == 0)
    return "";
  const Instance* cheapest = nullptr;
  const auto usd_of_one = [](const Instance& i) { return *i.usd / i.gpu_count; };
  for (const Instance& i : instances())
    if (i.gpu == side.planning.gpu->name && i.usd && i.gpu_count >= 1 &&
        (cheapest == nullptr || usd_of_one(i) < usd_of_one(*cheapest)))
      cheapest = &i;
  if (cheapest == nullptr) return "";
  const double hours_a_sample = side.report.time->seconds() / 3600 / static_cast<double>(side.report.time->samples);
  side.measured.figures[Figure::cost] = std::llround(usd_of_one(*cheapest) * hours_a_sample * 1e12);
  return cheapest->provider + " " + cheapest->name + ", " + format_figure(usd_of_one(*cheapest)) + " USD/h a GPU, " +
         cheapest->price_date;
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
