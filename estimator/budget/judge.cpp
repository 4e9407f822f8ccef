#include "estimator/budget/judge.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "estimator/base/glob.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

State state_of_level(Level level) {
  switch (level) {
    case Level::off: return State::ok;
    case Level::warn: return State::warn;
    case Level::error: return State::fail;
  }
  return State::fail;
}

class Judge {
 public:
  Judge(const Check& check, std::vector<Assertion>& out) : check_(check), out_(out) {}

  void thresholds(const std::vector<Threshold>& limits, const FigureValues& head, const FigureValues* base,
                  const std::string& module) {
    for (const Threshold& t : limits) {
      const Limit& any = t.max ? *t.max : t.min ? *t.min : *t.warn;
      const std::int64_t value = known(head[t.figure], t.figure, any.mark);
      const std::optional<std::int64_t> before = base != nullptr ? (*base)[t.figure] : std::nullopt;
      if (t.max) add_max(t, value, before, module);
      if (t.min) add_min(t, value, before, module);
      if (t.warn && !(t.max && value > t.max->amount)) {
        Assertion a = make(Assertion::Kind::warn, t.figure, value, *t.warn, before, module);
        if (value > a.limit && t.level != Level::off) a.state = State::warn;
        out_.push_back(std::move(a));
      }
    }
  }

  void growth(const FigureValues& head, const FigureValues& base) {
    for (const Growth& g : check_.growth) {
      const SourceMark& mark = g.fail ? g.fail->mark : g.warn->mark;
      const std::int64_t value = known(head[g.figure], g.figure, mark);
      const std::optional<std::int64_t>& before = base[g.figure];
      if (!before) continue;  // a figure that the base has not, as a time without a GPU
      if (g.warn && value > allowed(*g.warn, *before) && !(g.fail && value > allowed(*g.fail, *before)))
        add_growth(g.figure, *g.warn, value, *before, State::warn);
      else if (g.fail)
        add_growth(g.figure, *g.fail, value, *before, value > allowed(*g.fail, *before) ? State::fail : State::ok);
    }
  }

  // A module that is gone takes no floor with it.
  void vanished(const ModuleBudget& budget, const ModuleFigures& module) {
    for (const Threshold& t : budget.limits)
      if (t.min) add_min(t, 0, module.figures[t.figure], module.path);
  }

  void fits(const std::vector<FitsFigures>& gpus) {
    for (const FitsFigures& gpu : gpus) {
      Assertion a;
      a.kind = Assertion::Kind::fits;
      a.figure = Figure::device;
      a.subject = gpu.title;
      a.value = gpu.device_bytes;
      a.limit = gpu.usable_bytes - share_of(gpu.usable_bytes, check_.margin_hundredths);
      a.base = gpu.base_bytes;
      a.mark = gpu.mark;
      a.text = gpu.title;
      if (a.value > a.limit) broken_above(a, State::fail);
      out_.push_back(std::move(a));
    }
  }

 private:
  std::int64_t known(const std::optional<std::int64_t>& value, Figure figure, const SourceMark& mark) const {
    if (value) return *value;
    Error error("the " + std::string(name_of(figure)) + " of " + check_.name + " is not known");
    error.at(mark);
    if (figure == Figure::step_time)
      error.help("a time needs a GPU with known peaks, gpu: a100, and of GPUs of several nodes their network: 400");
    if (figure == Figure::cost)
      error.help(
          "a cost needs a GPU with a known price: add gpu: l4 to the check; gpuplan instances --gpu l4 lists prices");
    throw error;
  }

  static Assertion make(Assertion::Kind kind, Figure figure, std::int64_t value, const Limit& limit,
                        const std::optional<std::int64_t>& base, const std::string& module) {
    Assertion a;
    a.kind = kind;
    a.figure = figure;
    a.subject = module;
    a.value = value;
    a.limit = limit.amount;
    a.base = base;
    a.mark = limit.mark;
    a.text = limit.text;
    return a;
  }

  // What the base breaks as much or more is not this change's doing.
  void broken_above(Assertion& a, State state) const {
    a.inherited = a.base && *a.base > a.limit && a.value <= *a.base;
    a.state = a.inherited ? std::min(state, state_of_level(check_.inherited)) : state;
  }

  void add_max(const Threshold& t, std::int64_t value, const std::optional<std::int64_t>& base,
               const std::string& module) {
    Assertion a = make(Assertion::Kind::max, t.figure, value, *t.max, base, module);
    if (value > a.limit) broken_above(a, state_of_level(t.level));
    out_.push_back(std::move(a));
  }

  void add_min(const Threshold& t, std::int64_t value, const std::optional<std::int64_t>& base,
               const std::string& module) {
    Assertion a = make(Assertion::Kind::min, t.figure, value, *t.min, base, module);
    if (value < a.limit) {
      a.inherited = base && *base < a.limit && value >= *base;
      const State state = state_of_level(t.level);
      a.state = a.inherited ? std::min(state, state_of_level(check_.inherited)) : state;
    }
    out_.push_back(std::move(a));
  }

  // The largest value that breaks not all of what the limit says.
  static std::int64_t allowed(const GrowthBound& limit, std::int64_t base) {
    std::int64_t most = base;
    if (limit.hundredths) most = std::max(most, checked_add(base, share_of(base, *limit.hundredths)));
    if (limit.amount) most = std::max(most, checked_add(base, *limit.amount));
    return most;
  }

  void add_growth(Figure figure, const GrowthBound& limit, std::int64_t value, std::int64_t base, State state) {
    Assertion a;
    a.kind = Assertion::Kind::growth;
    a.state = state;
    a.figure = figure;
    a.value = value;
    a.limit = allowed(limit, base);
    a.base = base;
    a.mark = limit.mark;
    if (limit.hundredths) a.text = percentage_text(*limit.hundredths);
    out_.push_back(std::move(a));
  }

  const Check& check_;
  std::vector<Assertion>& out_;
};

const ModuleFigures* find_module(const std::vector<ModuleFigures>& modules, const std::string& path) {
  const auto at = std::ranges::find(modules, path, &ModuleFigures::path);
  return at == modules.end() ? nullptr : &*at;
}

}  // namespace

std::string_view name_of(State state) {
  constexpr std::array<std::string_view, 5> kNames = {"ok", "muted", "warn", "fail", "error"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view name_of(Assertion::Kind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"max", "min", "warn", "growth", "fits"};
  return kNames[static_cast<std::size_t>(kind)];
}

FigureValues figure_values(const Report& report) {
  FigureValues f;
  f[Figure::peak] = report.peak.reading.allocated_bytes;
  f[Figure::reserved] = report.peak.reading.reserved_bytes;
  f[Figure::device] = report.peak.device_bytes;
  f[Figure::params] = report.model.parameters;
  f[Figure::saved] = report.bytes.saved_for_backward;
  f[Figure::step_flop] = report.compute.step_flops;
  if (report.time) f[Figure::step_time] = std::llround(report.time->seconds() * 1e9);
  return f;
}

std::vector<ModuleFigures> matching_modules(const Report& report, const std::string& pattern) {
  std::vector<ModuleFigures> modules;
  std::map<std::string, std::size_t, std::less<>> index;  // of every path seen; of one that does not match, npos
  const auto add = [](std::optional<std::int64_t>& sum, std::int64_t n) { sum = checked_add(sum.value_or(0), n); };
  for (const LayerRow& row : report.layers) {
    for (std::size_t end = 0; end <= row.name.size(); ++end) {
      if (end < row.name.size() && row.name[end] != '.') continue;
      const std::string path = row.name.substr(0, end);
      const auto [at, fresh] = index.try_emplace(path, std::string::npos);
      if (fresh && matches_glob(path, pattern)) {
        at->second = modules.size();
        modules.push_back({.path = path, .figures = {}});
      }
      if (at->second == std::string::npos) continue;
      FigureValues& f = modules[at->second].figures;
      add(f[Figure::saved], row.saved_bytes);
      add(f[Figure::params], row.parameters);
      add(f[Figure::step_flop], checked_add(checked_mul(2, row.forward_macs), row.backward_flops));
    }
  }
  return modules;
}

Measured measure(const Report& report, const Check& check) {
  Measured measured{.figures = figure_values(report), .modules = {}};
  for (const ModuleBudget& budget : check.modules) measured.modules.push_back(matching_modules(report, budget.pattern));
  return measured;
}

std::vector<Assertion> judge(const Check& check, const Measured& head, const Measured* base,
                             const std::vector<FitsFigures>& fits) {
  std::vector<Assertion> assertions;
  Judge judge(check, assertions);
  judge.thresholds(check.limits, head.figures, base != nullptr ? &base->figures : nullptr, "");
  if (base != nullptr) judge.growth(head.figures, base->figures);
  judge.fits(fits);
  for (std::size_t i = 0; i < check.modules.size(); ++i) {
    const ModuleBudget& budget = check.modules[i];
    if (head.modules[i].empty())
      throw Error("no module of " + check.model + " matches \"" + budget.pattern + "\"")
          .at(budget.mark)
          .help("* is a part of a name, ** any number of names; the modules: gpuplan layers " + check.model);
    const std::size_t first = assertions.size();
    const std::vector<ModuleFigures> none;
    const std::vector<ModuleFigures>& before = base != nullptr && i < base->modules.size() ? base->modules[i] : none;
    for (const ModuleFigures& module : head.modules[i]) {
      const ModuleFigures* const same = find_module(before, module.path);
      judge.thresholds(budget.limits, module.figures, same != nullptr ? &same->figures : nullptr, module.path);
    }
    for (const ModuleFigures& module : before)
      if (find_module(head.modules[i], module.path) == nullptr) judge.vanished(budget, module);
    for (std::size_t k = first; k < assertions.size(); ++k) assertions[k].pattern = budget.pattern;
  }
  return assertions;
}

State state_of(const Check& check, const std::vector<Assertion>& assertions, Day today) {
  State worst = State::ok;
  for (const Assertion& a : assertions) worst = std::max(worst, a.state);
  if (worst == State::fail && check.skip_until && today <= *check.skip_until) return State::muted;
  return worst;
}

}  // namespace gpuplan
