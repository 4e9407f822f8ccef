#include "tools/check/verdict.h"

#include <algorithm>

#include "tools/options/words.h"
#include "tools/process/exit_code.h"

namespace gpuplan {

FailOn read_fail_on(const std::string& word) {
  if (word.find_first_of("+ ") != std::string::npos)
    throw Error("--fail-on expects error, warn, growth or none, not \"" + word + "\"", ErrorKind::usage)
        .help("allowed growth is set by growth: in gpuplan.yaml, or by --max-growth 5% for one model");
  return choose<FailOn>(
      "--fail-on", word,
      {{"error", FailOn::error}, {"warn", FailOn::warn}, {"growth", FailOn::growth}, {"none", FailOn::none}});
}

int exit_code_of(const CheckReport& report, FailOn fail_on) {
  const State worst = report.worst();
  if (std::ranges::any_of(report.results, &CheckResult::crashed)) return kInternalErrorCode;
  if (worst == State::error) return 3;
  const auto has_grown = [](const CheckResult& result) {
    return result.state == State::fail && std::ranges::any_of(result.assertions, [](const Assertion& a) {
             return a.kind == Assertion::Kind::growth && a.state == State::fail;
           });
  };
  switch (fail_on) {
    case FailOn::error: return worst == State::fail ? 1 : 0;
    case FailOn::warn: return worst >= State::warn ? 1 : 0;
    case FailOn::growth: return std::ranges::any_of(report.results, has_grown) ? 1 : 0;
    case FailOn::none: return 0;
  }
  return 1;
}

void refuse_empty_gate(const CheckReport& report, bool with_base) {
  const bool judged = std::ranges::any_of(
      report.results, [](const CheckResult& r) { return !r.assertions.empty() || r.state == State::error; });
  if (judged || with_base) return;
  throw Error("nothing was checked: all limits are on growth, which needs --base").help("gpuplan check --base auto");
}

bool is_unchanged(const CheckReport& report) {
  return report.gone.empty() && std::ranges::all_of(report.results, [](const CheckResult& r) {
           return r.state < State::fail && r.base && r.base->values == r.measured.figures.values &&
                  r.base_note.empty() && r.limit_changes.empty();
         });
}

}  // namespace gpuplan
