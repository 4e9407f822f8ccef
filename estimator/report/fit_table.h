// Which GPUs a run fits, as tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/calendar.h"
#include "estimator/report/text_style.h"
#include "estimator/search/fit.h"
#include "estimator/search/suggestions.h"

namespace gpuplan {

/// All that a page on a fit says.
struct FitReport {
  std::string model, file;
  FitQuestion question;
  Fit fit;
  bool all_gpus = false;  // no GPU was named: those that do not fit, or lack an arithmetic, are listed by name only
  bool one_is_not_enough = false;       // so that several were asked, though the question had not
  std::string not_rented;               // where something fits and nothing is chosen: "--spot leaves ..."
  std::vector<Suggestion> suggestions;  // where nothing fits: for the step on `closest`
  std::optional<std::size_t> closest;   // the row that lacks least
  std::vector<std::string> warnings;
};

/// "--batch 239 --gpu l4", "--batch 64 --gpu h100 --gpus 8 --zero fsdp": what the row means to `gpuplan plan`, in words
/// that a shell does not split.
std::string arguments_of(const FitRow& row, const FitQuestion& question);

/// A row for each GPU, what is chosen and why, how old the prices are on the day `today`; where nothing fits the
/// changes that help.
std::string fit_text(const FitReport& report, const TextStyle& style, Day today);
std::string fit_md(const FitReport& report);
/// The same figures, a GPU a line; unknown is empty.
std::string fit_csv(const FitReport& report);
/// gpuplan.fit/1 (fit_json_schema).
std::string fit_json(const FitReport& report, std::string_view version, Day today);
std::string fit_json_schema();

}  // namespace gpuplan
