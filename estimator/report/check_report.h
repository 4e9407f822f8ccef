// The report of `gpuplan check`, and its writers. Each writer escapes text from files, since names may contain markup.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/budget/judge.h"
#include "estimator/plan/report.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// Why a figure changed: a line of a model or of gpuplan.yaml that is another one than at the base.
struct CauseLine {
  std::string file;
  int line = 0, column = 0;
  std::string what;                         // "vars.seq", "batch of gpt2"
  std::string from, to;                     // empty: added, removed
  bool of_run = false;                      // a run flag, which no parameter depends on
  std::optional<std::int64_t> effect = {};  // what it does by itself to the lead's figure, where that has been planned
  bool with_previous = false;               // it is one effect with the line before, and cannot be planned without it
};

/// A change that gets under the limit that was broken first, with what the limited figure is then.
struct BudgetSuggestion {
  std::string flags;
  Figure figure = Figure::peak;
  std::int64_t value = 0;
};

struct CheckResult {
  Check check;
  State state = State::ok;
  std::vector<Assertion> assertions;
  Measured measured;
  std::optional<FigureValues> base;
  std::string base_note;   // "new: not there at the base", "configs/old.yaml at the base"
  std::string run;         // "train, batch 64, fp32, adam"
  std::string peak_place;  // "backward of lm_head"
  std::vector<PeakPart> parts, base_parts;
  std::vector<ModuleBytes> modules;  // alive at the peak, largest first
  std::vector<CauseLine> causes;
  std::optional<std::int64_t> together;  // what the causes do beyond their effects; nothing where they have none
  std::vector<CauseLine> limit_changes;  // limits, mutes and levels that the base had otherwise
  std::vector<BudgetSuggestion> suggestions;
  std::vector<std::string> warnings;
  std::string error;         // why it could not be planned, in one line
  std::string error_report;  // the same with its place, as printed
  CauseLine error_at;        // its place; without a file where it has none
  bool crashed = false;      // the error is a bug of gpuplan, not one of the model
  std::string price;         // what a cost is made of, with its date
  std::string memory;        // for a page: memory_page_json(), where the planner was asked for it
};

struct CheckReport {
  std::string file;    // "gpuplan.yaml"; "" for limits of the command line
  std::string folder;  // from the top of the repository to what paths are relative to: "" or "training/"
  std::string base_commit, base_rule;  // "": without a base
  std::vector<CheckResult> results;
  std::vector<std::string> warnings;  // about all of them
  std::vector<std::string> gone;      // checks of the base that are not there any more
  /// Of sources that are links: where the files are, from the top of the repository.
  std::map<std::string, std::string> real_paths;
  Day today = 0;

  int count(State state) const;
  State worst() const;
};

/// The assertion that a row is about: the worst, of those the one that uses most of its limit; null without any.
const Assertion* lead(const CheckResult& result);
/// "peak 13.6 GiB is 1.59 GiB (13 %) over the budget of 12 GiB": a broken limit in words.
std::string sentence(const Assertion& assertion, Units units = Units::iec);
/// What a row compares: the lead's value with its limit; of a warning level with the limit above it, where there is
/// one.
const Assertion* compared(const CheckResult& result);
/// The share of its limit that a value is, in percent, rounded down.
std::int64_t percent_of_limit(const Assertion& assertion);
/// Whether --update can write another number for it.
bool can_be_raised(const Assertion& assertion);
/// The sentence of the lead, or why the check could not be planned: what a title or a summary says.
std::string headline(const CheckResult& result);
/// In words: "8 GiB", "25,557,032", "1.57 TFLOP", "36.2 ms", "0.52 USD/Msample".
std::string format_amount(Figure figure, std::int64_t amount, Units units = Units::iec);
/// "+4.07 GiB (+42.7 %)", "±0", of a base of 0 without a share.
std::string format_growth(Figure figure, std::int64_t value, std::int64_t base, const TextStyle& style);

std::string check_text(const CheckReport& report, const TextStyle& style);
/// What a failed check says below the rows: where, why, what to do.
std::string failure_text(const CheckResult& result, const CheckReport& report, const TextStyle& style);
/// Schema gpuplan.check/1.
std::string check_json(const CheckReport& report, std::string_view version);
std::string check_json_schema();
/// For a job's summary and a pull request's comment: at most `most` bytes, details left out first. Ends with a marker
/// that comment actions find it by.
std::string check_md(const CheckReport& report, std::string_view version, std::size_t most);
/// GitHub's workflow commands, at most ten of a kind.
std::string check_github(const CheckReport& report);
std::string check_gitlab(const CheckReport& report);  // Code Quality
std::string check_junit(const CheckReport& report);
std::string check_sarif(const CheckReport& report, std::string_view version);
std::string check_openmetrics(const CheckReport& report);

}  // namespace gpuplan
