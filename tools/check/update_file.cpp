#include "tools/check/update_file.h"

#include <algorithm>

#include "estimator/budget/read_budget.h"
#include "tools/check/settings.h"
#include "tools/check/update.h"
#include "tools/files/write_file.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

// Limits may be tied to each other by anchors: none may be broken by what mends another.
void refuse_broken_update(const std::string& text, const CheckReport& report) {
  const Budget after = read_budget(std::make_shared<Source>(Source{.name = report.file, .text = text}), run_keys());
  for (const CheckResult& result : report.results) {
    const auto same = std::ranges::find(after.checks, result.check.name, &Check::name);
    if (same == after.checks.end() || result.state == State::error) continue;
    for (const Assertion& a : judge(*same, result.measured, nullptr, {}))
      if (a.state == State::fail && can_be_raised(a) && result.state != State::muted)
        throw Error("--update would break " + same->name + ": " + sentence(a))
            .at(a.mark)
            .help("an anchor ties two limits together: write them out");
  }
}

}  // namespace

FileUpdate update_file(const CheckReport& report, const fs::path& folder, const Source& source) {
  const BudgetUpdate update = update_limits(source, report.results);
  FileUpdate done{.text = "", .left = update.left};
  for (const LimitEdit& edit : update.edits)
    done.text += report.file + ":" + std::to_string(edit.line) + "\n  - " + edit.before + "\n  + " + edit.after + "\n";
  if (!update.edits.empty()) {
    refuse_broken_update(update.text, report);
    write_file((folder / report.file).string(), update.text);
  }
  const std::size_t n = update.edits.size();
  done.text += n == 0 ? "no limit to change\n" : std::to_string(n) + (n == 1 ? " line changed\n" : " lines changed\n");
  if (update.left > 0)
    done.text += std::to_string(update.left) + (update.left == 1 ? " check fails" : " checks fail") +
                 " for what --update does not change: growth, a GPU, a model that cannot be planned\n";
  return done;
}

}  // namespace gpuplan
