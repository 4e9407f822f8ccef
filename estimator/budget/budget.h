// gpuplan.yaml: limits on what a step takes, as values. Every limit keeps the place that it is written at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/calendar.h"
#include "estimator/base/error.h"
#include "estimator/budget/figure.h"

namespace gpuplan {

/// What a broken limit does to the verdict.
enum class Level : std::uint8_t { off, warn, error };

/// An amount as written: "12 GiB".
struct Limit {
  std::int64_t amount = 0;  // in the smallest unit of its figure
  std::string text;
  SourceMark mark;
};

/// Limits on one figure. At least one of them is there.
struct Threshold {
  Figure figure = Figure::peak;
  std::optional<Limit> max, min;
  std::optional<Limit> warn;  // above it a warning; of a share of `max` the amount that it is
  Level level = Level::error;
};

/// Growth against the base that is too much: more than all that is said. At least one of the two is there.
struct GrowthBound {
  std::optional<std::int64_t> hundredths;  // of a percent of the base
  std::optional<std::int64_t> amount;      // in the smallest unit of its figure
  SourceMark mark;
};

struct Growth {
  Figure figure = Figure::peak;
  std::optional<GrowthBound> fail, warn;
};

/// Limits for each module that a pattern matches (* within a name, ** across them).
struct ModuleBudget {
  std::string pattern;
  SourceMark mark;
  std::vector<Threshold> limits;
};

/// A GPU that the step has to fit on.
struct FitsOn {
  std::string gpu;  // as written
  SourceMark mark;
};

/// A run flag as written: batch: 64. What it means, and whether it exists, says whoever reads flags.
struct Setting {
  std::string key;      // the flag's first name
  std::string written;  // its name as written: dtype for precision
  std::string text;
  SourceMark key_mark, mark;
  bool by_default = false;  // of `defaults:`
};

struct Check {
  std::string name;    // unique; of a matrix "gpt2[batch=8,dtype=bf16]"
  std::string family;  // the same without what a matrix adds
  SourceMark mark;     // of the name
  std::string model;   // as written: a file beside gpuplan.yaml, or zoo:NAME
  SourceMark model_mark;
  std::vector<Setting> settings;  // defaults first, so that the last one of a key holds
  std::vector<Threshold> limits;
  std::vector<Growth> growth;
  std::vector<FitsOn> fits;
  std::vector<ModuleBudget> modules;
  std::int64_t margin_hundredths = 0;  // of a percent of a GPU's memory that `fits` leaves free
  Level inherited = Level::error;      // of a limit that the base breaks as much or more
  std::string message, owner, reason;
  std::optional<Day> skip_until;  // the last day on which a broken limit does not count
  SourceMark skip_mark;
};

struct Budget {
  std::shared_ptr<const Source> source;  // what the marks point into
  std::vector<Check> checks;
};

/// Checks of one file at most, its matrices multiplied out.
constexpr std::size_t kMostChecks = 100'000;

}  // namespace gpuplan
