// The screen of gpuplan check: a line a check, what is wrong with those that fail, a summary.
#include <algorithm>

#include "estimator/base/excerpt.h"
#include "estimator/report/check_report.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

constexpr std::size_t kBarColumns = 20;

std::string plural(std::size_t n, const char* one) {
  return format_count(static_cast<std::int64_t>(n)) + " " + one + (n == 1 ? "" : "s");
}

class CheckScreen : public StyledScreen {
 public:
  CheckScreen(const CheckReport& report, const TextStyle& style) : StyledScreen(style), report_(report) {}

  std::string heading() const;
  std::string rows() const;
  std::string failures() const;
  std::string summary() const;

 private:
  std::string mark(State state) const;
  std::string colored(State state, const std::string& text) const;
  std::string bar(const Assertion& a) const;
  std::vector<std::string> row(const CheckResult& result) const;
  std::string remarks(const CheckResult& result) const;

  const CheckReport& report_;
};

std::string CheckScreen::heading() const {
  std::string out = paint("1", report_.file.empty() ? "limits of the command line" : printable_text(report_.file));
  out += dot() + plural(report_.results.size(), "check");
  if (!report_.base_commit.empty())
    out += dot() + "base " + report_.base_commit.substr(0, 9) + " (" + printable_text(report_.base_rule) + ")";
  else if (!report_.base_rule.empty())
    out += dot() + "base " + printable_text(report_.base_rule);
  return out + "\n";
}

std::string CheckScreen::mark(State state) const {
  switch (state) {
    case State::ok: return mark_of(true, style_);
    case State::muted: return style_.unicode ? "–" : "[--]";
    case State::warn: return style_.unicode ? "!" : "[!!]";
    case State::fail:
    case State::error: return style_.unicode ? "✖" : "[no]";
  }
  return "";
}

std::string CheckScreen::colored(State state, const std::string& text) const {
  switch (state) {
    case State::ok: return paint("32", text);
    case State::muted:
    case State::warn: return paint("33", text);
    case State::fail:
    case State::error: return paint("31", text);
  }
  return text;
}

std::string CheckScreen::bar(const Assertion& a) const {
  const bool of_limit = a.kind != Assertion::Kind::min && a.kind != Assertion::Kind::growth;
  if (!of_limit || a.limit <= 0) return "";
  const std::int64_t percent = in_tenths(std::min(a.value, a.limit) / std::max<std::int64_t>(a.limit / 1'000'000, 1),
                                         std::max<std::int64_t>(std::min<std::int64_t>(a.limit, 1'000'000), 1));
  const auto full = static_cast<std::size_t>(percent) * kBarColumns / 10;
  std::string out;
  for (std::size_t i = 0; i < std::min(full, kBarColumns); ++i) out += style_.unicode ? "█" : "#";
  return out;
}

std::string CheckScreen::remarks(const CheckResult& result) const {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : dot()) + text; };
  const Assertion* const a = lead(result);
  if (result.base && a != nullptr) {
    const auto& base = a->base ? a->base : (*result.base)[a->figure];
    if (base) add(format_growth(a->figure, a->value, *base, style_));
  }
  if (!result.base_note.empty()) add(printable_text(result.base_note));
  for (const CauseLine& change : result.limit_changes)
    add(printable_text(change.what + " was " + (change.from.empty() ? "not there" : change.from)));
  if (result.state == State::muted)
    add("muted until " + date_text(*result.check.skip_until) + ": " + printable_text(result.check.reason));
  else if (result.check.skip_until && report_.today > *result.check.skip_until)
    add("was muted until " + date_text(*result.check.skip_until));
  if (a != nullptr && a->inherited && a->state != State::fail) add("same as the base");
  return out;
}

// Mark, name, value, "of", limit, bar, share, remarks.
std::vector<std::string> CheckScreen::row(const CheckResult& result) const {
  const Assertion* const a = compared(result);
  std::vector<std::string> cells = {mark(result.state), printable_text(result.check.name)};
  if (result.state == State::error) {
    cells.insert(cells.end(), {"", "", "cannot be planned"});
    return cells;
  }
  if (a == nullptr) {
    const auto& peak = result.measured.figures[Figure::peak];
    cells.insert(cells.end(), {peak ? bytes(*peak) : "", "", "no limit applies"});
  } else if (a->kind == Assertion::Kind::growth) {
    cells.insert(cells.end(), {format_amount(a->figure, a->value, style_.units), "", "growth"});
  } else {
    const bool floor = a->kind == Assertion::Kind::min;
    cells.insert(cells.end(), {format_amount(a->figure, a->value, style_.units), floor ? ">=" : "of",
                               a->kind == Assertion::Kind::fits ? bytes(a->limit) + " " + a->subject
                                                                : format_amount(a->figure, a->limit, style_.units)});
    if (style_.interactive) cells.push_back(bar(*a));
    cells.push_back(floor ? "" : format_count(percent_of_limit(*a)) + " %");
    if (a->figure != Figure::peak && a->kind != Assertion::Kind::fits)
      cells.back() += (floor ? "" : " ") + std::string(name_of(a->figure)) +
                      (a->subject.empty() ? "" : " of " + printable_text(a->subject));
  }
  const std::size_t columns = style_.interactive ? 7 : 6;
  cells.resize(std::max(cells.size(), columns));
  cells.push_back(remarks(result));
  return cells;
}

std::string CheckScreen::rows() const {
  std::vector<TextTable::Align> columns = {kLeft, kLeft, kRight, kLeft, kLeft};
  if (style_.interactive) columns.push_back(kLeft);
  columns.insert(columns.end(), {kRight, kLeft});
  TextTable table(columns);
  std::vector<State> states;
  for (const CheckResult& result : report_.results) {
    if (style_.brief && (result.state == State::ok || result.state == State::muted)) continue;
    table.row(row(result));
    states.push_back(result.state);
  }
  if (states.empty()) return "";
  // Colours after the widths are known: their bytes take no columns.
  std::string out, text = table.text();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::size_t end = text.find('\n');
    const std::string line = text.substr(0, end), sign = mark(states[i]);
    out += line.substr(0, 2) + colored(states[i], sign) + line.substr(2 + sign.size()) + "\n";
    text.erase(0, end + 1);
  }
  return "\n" + out;
}

std::string CheckScreen::failures() const {
  std::string out;
  for (const CheckResult& result : report_.results)
    if (result.state == State::fail || result.state == State::error || result.state == State::warn)
      out += "\n" + colored(result.state, mark(result.state) + " " + printable_text(result.check.name)) + ": " +
             (result.state == State::error ? "cannot be planned" : printable_text(headline(result))) + "\n" +
             failure_text(result, report_, style_);
  return out;
}

std::string CheckScreen::summary() const {
  std::string out = plural(report_.results.size(), "check") + ": ";
  std::string parts;
  const auto add = [&](State state, const char* word) {
    if (const int n = report_.count(state); n > 0)
      parts += (parts.empty() ? "" : ", ") + std::to_string(n) + " " + word;
  };
  add(State::ok, "ok");
  add(State::muted, "muted");
  add(State::warn, "warned");
  add(State::fail, "failed");
  add(State::error, "not planned");
  return "\n" + out + parts + "\n";
}

}  // namespace

std::string check_text(const CheckReport& report, const TextStyle& style) {
  const CheckScreen screen(report, style);
  const std::string rows = screen.rows();
  if (style.brief) return (rows.empty() ? "" : rows.substr(1)) + screen.failures();
  return screen.heading() + rows + screen.failures() + screen.summary();
}

}  // namespace gpuplan
