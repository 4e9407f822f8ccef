#include "tools/check/update.h"

#include <algorithm>
#include <map>

#include "estimator/budget/read_budget.h"
#include "estimator/budget/rounded_amount.h"
#include "tools/check/settings.h"
#include "tools/files/write_file.h"

namespace gpuplan {
namespace {

std::size_t offset_of(const Source& source, int line, int column) {
  std::size_t at = 0;
  for (int i = 1; i < line; ++i) at = source.text.find('\n', at) + 1;
  return at + static_cast<std::size_t>(column - 1);
}

std::string_view unit_of_text(std::string_view text) {
  const std::size_t at = text.find_first_not_of("0123456789.");
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

// A limit, and what it has to let through.
struct Raise {
  const Assertion* assertion = nullptr;
  std::int64_t value = 0;
  bool floor = false;
};

std::map<std::pair<int, int>, Raise> raises_of(const std::vector<CheckResult>& results) {
  std::map<std::pair<int, int>, Raise> raises;  // by place: an alias has several checks behind one limit
  for (const CheckResult& result : results) {
    if (result.state != State::fail) continue;  // muted: for another day
    for (const Assertion& a : result.assertions) {
      if (a.state != State::fail || !can_be_raised(a)) continue;
      const auto [at, fresh] = raises.try_emplace({a.mark.line, a.mark.column});
      Raise& raise = at->second;
      const bool floor = a.value < a.limit;
      if (!fresh && floor != raise.floor)
        throw Error("this limit is both an upper and a lower one").at(a.mark).label("write it as two limits");
      if (fresh || (floor ? a.value < raise.value : a.value > raise.value)) raise = {&a, a.value, floor};
    }
  }
  return raises;
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
            .help("a YAML anchor ties two limits together: write both out");
  }
}

}  // namespace

BudgetUpdate update_limits(const Source& source, const std::vector<CheckResult>& results) {
  BudgetUpdate update;
  update.text = source.text;
  const std::map<std::pair<int, int>, Raise> raises = raises_of(results);
  // From the end, so that the places before stay where they are.
  for (auto raise = raises.rbegin(); raise != raises.rend(); ++raise) {
    const auto& [place, limit] = *raise;
    const Assertion& a = *limit.assertion;
    const std::string now = rounded_amount(limit.value, unit_of(a.figure), unit_of_text(a.text),
                                           limit.floor ? Rounding::down : Rounding::up);
    const std::size_t at = offset_of(source, place.first, place.second);
    const auto length = static_cast<std::size_t>(a.mark.length);
    const std::string_view there = std::string_view(source.text).substr(at, length);
    if (there.find(a.text) == std::string_view::npos)
      throw Error("a limit that spans several lines cannot be updated").at(a.mark).label("write it on one line");
    update.text.replace(at, length, now);
  }
  const Source now{.name = source.name, .text = update.text};
  for (const auto& [place, limit] : raises)
    if (update.edits.empty() || update.edits.back().line != place.first)
      update.edits.push_back({.line = place.first,
                              .before = std::string(source.line(place.first)),
                              .after = std::string(now.line(place.first))});
  const auto stays = [](const Assertion& a) { return a.state == State::fail && !can_be_raised(a); };
  for (const CheckResult& result : results) {
    const bool fails = result.state == State::fail && std::ranges::any_of(result.assertions, stays);
    if (result.state == State::error || fails) ++update.left;
  }
  return update;
}

FileUpdate update_file(const CheckReport& report, const std::filesystem::path& folder, const Source& source) {
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
                 " for reasons that --update cannot fix: growth, a GPU, or a model that cannot be planned\n";
  return done;
}

}  // namespace gpuplan
