#include "tools/check/update_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "estimator/budget/read_budget.h"
#include "tools/check/settings.h"
#include "tools/check/update.h"
#include "tools/output_options.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

// By way of a second file, so that an interruption leaves the old one.
void replace_file(const fs::path& path, const std::string& text) {
  const fs::path real = fs::canonical(path);
  std::string next = real.string() + ".XXXXXX";
  const int file = mkstemp(next.data());
  if (file < 0)
    throw Error("cannot write " + path.string() + ": " + std::generic_category().message(errno),
                ErrorKind::environment);
  close(file);
  std::error_code error;
  try {
    write_file(next, text);
  } catch (const Error&) {
    fs::remove(next, error);
    throw;
  }
  fs::permissions(next, fs::status(real, error).permissions(), error);
  fs::rename(next, real, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove(next, ignored);
  throw Error("cannot write " + path.string() + ": " + error.message(), ErrorKind::environment);
}

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
    replace_file(folder / report.file, update.text);
  }
  const std::size_t n = update.edits.size();
  done.text += n == 0 ? "no limit to change\n" : std::to_string(n) + (n == 1 ? " line changed\n" : " lines changed\n");
  if (update.left > 0)
    done.text += std::to_string(update.left) + (update.left == 1 ? " check fails" : " checks fail") +
                 " for what --update does not change: growth, a GPU, a model that cannot be planned\n";
  return done;
}

}  // namespace gpuplan
