// A check's limits against the figures of a plan, and of the base's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/budget/budget.h"
#include "estimator/plan/report.h"

namespace gpuplan {

/// From good to bad. muted: it would fail, and skip_until says that this does not count.
enum class State : std::uint8_t { ok, muted, warn, fail, error };
std::string_view name_of(State state);

/// One limit, held or broken.
struct Assertion {
  enum class Kind : std::uint8_t { max, min, warn, growth, fits };
  Kind kind = Kind::max;
  State state = State::ok;
  Figure figure = Figure::peak;
  std::string pattern;               // of a module's limit: which of the budget's patterns it comes from
  std::string subject;               // the GPU's title of `fits`, the module's path
  std::int64_t value = 0;            // in the smallest unit of the figure
  std::int64_t limit = 0;            // of growth: the largest value that it allows
  std::optional<std::int64_t> base;  // the same figure there
  bool inherited = false;            // broken by the base as much or more
  SourceMark mark;                   // of the limit
  std::string text;                  // the limit as written: "12 GiB"; of growth "5 %, 256 MiB"
};
std::string_view name_of(Assertion::Kind kind);

/// A GPU that a check has to fit on, planned. Verdict: whether the step runs there.
struct FitsFigures {
  std::string title;
  std::int64_t device_bytes = 0;
  std::int64_t usable_bytes = 0;
  SourceMark mark;
  std::optional<std::int64_t> base_bytes;
};

/// A module that a pattern of the check matches, and what its layers take together.
struct ModuleFigures {
  std::string path;
  FigureValues figures;
};

/// The figures that a report has; time where Report::time is known, never a cost.
FigureValues figure_values(const Report& report);
/// The modules of the report (every prefix of a layer's path, and the layers) that match, in order of the model.
std::vector<ModuleFigures> matching_modules(const Report& report, const std::string& pattern);

/// What is judged of one side.
struct Measured {
  FigureValues figures;
  std::vector<std::vector<ModuleFigures>> modules;  // for each of Check::modules
};
Measured measure(const Report& report, const Check& check);

/// Every limit of the check, in the order written: thresholds, growth, fits, modules. `base`: null without one. A
/// figure that is limited and not known throws Error at the limit; so does a pattern that matches no module.
std::vector<Assertion> judge(const Check& check, const Measured& head, const Measured* base,
                             const std::vector<FitsFigures>& fits);
/// The worst of them; a failure of a muted check is muted on the days up to skip_until.
State state_of(const Check& check, const std::vector<Assertion>& assertions, Day today);

}  // namespace gpuplan
