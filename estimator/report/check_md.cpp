// gpuplan check as GitHub-flavoured Markdown: a verdict, a table, and what is behind it in folds.
#include <algorithm>

#include "estimator/base/excerpt.h"
#include "estimator/report/check_report.h"
#include "estimator/report/escape.h"

namespace gpuplan {
namespace {

constexpr std::size_t kShownUnchanged = 5;

// Also within a table.
std::string escaped_cell(const std::string& text) {
  std::string out;
  for (const char c : markdown_text(text)) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// In a fence that the text cannot close.
std::string fenced(const std::string& text) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += '`';
  return fence + "text\n" + text + fence + "\n";
}

const char* icon(State state) {
  switch (state) {
    case State::ok: return "✅";
    case State::muted: return "🔇";
    case State::warn: return "⚠️";
    case State::fail: return "❌";
    case State::error: return "💥";
  }
  return "";
}

std::string verdict(const CheckReport& report) {
  const int bad = report.count(State::fail) + report.count(State::error), all = static_cast<int>(report.results.size());
  const std::string of = std::to_string(all) + (all == 1 ? " memory budget" : " memory budgets");
  if (bad == 0 && report.count(State::warn) == 0) return "> [!TIP]\n> **gpuplan: " + of + " met**\n";
  const State worst = report.worst();
  const auto first = std::ranges::find(report.results, worst, &CheckResult::state);
  const std::string what = bad > 0 ? std::to_string(bad) + " of " + of + " not met"
                                   : of + " met, " + std::to_string(report.count(State::warn)) + " with a warning";
  return std::string("> [!") + (bad > 0 ? "CAUTION" : "WARNING") + "]\n> **gpuplan: " + what +
         "**: " + escaped_cell(first->check.name) + ": " + escaped_cell(headline(*first)) + "\n";
}

std::string row(const CheckResult& result, bool with_base) {
  const Assertion* const a = compared(result);
  const bool bad = result.state == State::fail || result.state == State::error;
  const std::string name = escaped_cell(result.check.name);
  std::string out = std::string("| ") + icon(result.state) + " " + (bad ? "**" + name + "**" : name) + " | ";
  if (a == nullptr || result.state == State::error) return out + "– | " + (with_base ? "– | " : "") + "– | – |\n";
  out += format_amount(a->figure, a->value) + " | ";
  if (with_base) {
    const auto& base = a->base ? a->base : result.base ? (*result.base)[a->figure] : std::optional<std::int64_t>();
    out += (base ? format_growth(a->figure, a->value, *base, {}) : escaped_cell(result.base_note)) + " | ";
  }
  const bool growth = a->kind == Assertion::Kind::growth;
  std::string limit = growth ? "growth" : format_amount(a->figure, a->limit);
  if (a->kind == Assertion::Kind::fits) limit += " " + escaped_cell(a->subject);
  if (a->figure != Figure::peak && a->kind != Assertion::Kind::fits)
    limit += " " + escaped_cell(std::string(name_of(a->figure)));
  return out + limit + " | " + (growth ? "–" : format_count(percent_of_limit(*a)) + " %") + " |\n";
}

std::string table_head(const CheckReport& report, bool with_base) {
  return std::string("| check | needs | ") +
         (with_base
              ? "vs " + (report.base_commit.empty() ? "base" : "`" + report.base_commit.substr(0, 9) + "`") + " | "
              : "") +
         "budget | used |\n|:--|--:|" + (with_base ? "--:|" : "") + "--:|--:|\n";
}

// What needs looking at first; the many that are met and have not changed behind a fold.
std::string table(const CheckReport& report) {
  const bool with_base = !report.base_rule.empty();
  std::string shown, folded;
  std::size_t quiet = 0;
  for (const State state : {State::error, State::fail, State::warn, State::muted, State::ok})
    for (const CheckResult& result : report.results) {
      const bool good = state == State::ok || state == State::muted;
      if (result.state == state) (good && ++quiet > kShownUnchanged ? folded : shown) += row(result, with_base);
    }
  std::string out = table_head(report, with_base) + shown;
  if (!folded.empty())
    out += "\n<details><summary>" + std::to_string(quiet - kShownUnchanged) + " more that are met</summary>\n\n" +
           table_head(report, with_base) + folded + "\n</details>\n";
  return out;
}

std::string causes(const CheckResult& result) {
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(result.causes.size(), 8); ++i) {
    const CauseLine& c = result.causes[i];
    out += (i == 0 ? "**Cause** " : ", ") + escaped_cell(c.file) + ":" + std::to_string(c.line) + " " +
           escaped_cell(c.what) + ": " + (c.from.empty() ? "new" : escaped_cell(c.from)) + " → " +
           (c.to.empty() ? "gone" : escaped_cell(c.to));
    if (c.effect) out += " (" + format_growth(lead(result)->figure, *c.effect, 0, {}) + " by itself)";
  }
  return out.empty() ? "" : out + "\n";
}

std::string suggestions(const CheckResult& result) {
  std::string out;
  for (const BudgetSuggestion& way : result.suggestions)
    out +=
        (out.empty() ? "**Suggestions** " : " · ") + ("`" + way.flags) + "` → " + format_amount(way.figure, way.value);
  return out.empty() ? "" : out + "\n";
}

std::string details(const CheckResult& result, const CheckReport& report) {
  std::string out = "\n**" + escaped_cell(result.check.name) + "**: " + escaped_cell(headline(result)) + "\n\n" +
                    causes(result) + suggestions(result);
  if (!result.check.message.empty()) out += "> " + escaped_cell(result.check.message) + "\n";
  if (!result.check.owner.empty()) out += "\nOwner: " + escaped_cell(result.check.owner) + "\n";
  return out + "\n<details><summary>Where it comes from</summary>\n\n" + fenced(failure_text(result, report, {})) +
         "\n</details>\n";
}

std::string changed_limits(const CheckReport& report) {
  std::string out;
  for (const CheckResult& result : report.results)
    for (const CauseLine& c : result.limit_changes)
      out += "* " + escaped_cell(result.check.name) + ": " + escaped_cell(c.what) + " " +
             (c.from.empty() ? "new" : escaped_cell(c.from)) + " → " + (c.to.empty() ? "gone" : escaped_cell(c.to)) +
             "\n";
  return out.empty() ? "" : "\n**Limits changed here**\n\n" + out;
}

std::string warnings(const CheckReport& report) {
  std::string out;
  for (const std::string& warning : report.warnings) out += "* " + escaped_cell(warning) + "\n";
  return out.empty() ? "" : "\n<details><summary>Warnings</summary>\n\n" + out + "\n</details>\n";
}

std::string footer(const CheckReport& report, std::string_view version) {
  std::string out = "\n<sub>gpuplan " + std::string(version) + ", a static estimate";
  if (!report.base_rule.empty()) out += ", base: " + escaped_cell(report.base_rule);
  // One marker a budget file, so that several have comments of their own.
  std::string name = report.folder + (report.file.empty() ? "check" : report.file);
  std::erase_if(name, [](char c) { return c == '-' || c == '>' || c == '<' || c == '\n'; });
  return out + "</sub>\n<!-- gpuplan:" + printable_text(name) + " -->\n";
}

}  // namespace

std::string check_md(const CheckReport& report, std::string_view version, std::size_t most) {
  const std::string last = footer(report, version);
  const std::string truncated = "\nDetails left out: the page would be too long.\n";
  std::string out = verdict(report) + "\n" + table(report) + changed_limits(report) + warnings(report);
  if (out.size() + truncated.size() + last.size() > most) {
    // Nothing but the verdict, whatever its length.
    out = verdict(report);
    if (out.size() + truncated.size() + last.size() > most) out = "> [!CAUTION]\n> **gpuplan: see the job's log**\n";
    return out + truncated + last;
  }
  bool whole = true;
  for (const State state : {State::error, State::fail, State::warn})
    for (const CheckResult& result : report.results) {
      if (result.state != state) continue;
      const std::string more = details(result, report);
      whole = whole && out.size() + more.size() + truncated.size() + last.size() <= most;
      if (whole) out += more;
    }
  return out + (whole ? "" : truncated) + last;
}

}  // namespace gpuplan
