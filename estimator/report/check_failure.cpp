// What is said of a check that failed: the limit's line, changed lines, what is alive at the peak, suggestions.
#include <algorithm>
#include <map>

#include "estimator/base/excerpt.h"
#include "estimator/report/check_report.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostCauses = 8;
constexpr std::size_t kMostModules = 4;

// In single quotes where a shell would see more than a word.
std::string shell_word(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._/-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string limit_label(const Assertion& a) {
  switch (a.kind) {
    case Assertion::Kind::max: return "the limit";
    case Assertion::Kind::min: return "the floor";
    case Assertion::Kind::warn: return "the warning level";
    case Assertion::Kind::growth: return "the allowed growth";
    case Assertion::Kind::fits: return "must fit this GPU";
  }
  return "";
}

std::string change_words(const CauseLine& cause, const TextStyle& style) {
  const std::string arrow = style.unicode ? " → " : " -> ";
  if (cause.from.empty()) return cause.what + (cause.to.empty() ? "" : ": " + cause.to) + " (new)";
  if (cause.to.empty()) return cause.what + ": " + cause.from + " (gone)";
  return cause.what + ": " + cause.from + arrow + cause.to;
}

// "+4.07 GiB": what a line does by itself.
std::string effect_text(const CauseLine& cause, Figure figure, const TextStyle& style) {
  if (cause.with_previous) return "with the one above";
  return cause.effect ? format_growth(figure, *cause.effect, 0, style) : "not separable";
}

std::string causes_text(const CheckResult& result, const TextStyle& style) {
  if (result.causes.empty()) return "";
  const bool with_effects = result.together.has_value();
  const Figure figure = lead(result)->figure;
  std::vector<TextTable::Align> columns = {kLeft};
  if (with_effects) columns.push_back(kRight);
  columns.insert(columns.end(), {kLeft, kLeft});
  TextTable table(columns);
  const std::size_t shown = std::min(result.causes.size(), kMostCauses);
  for (std::size_t i = 0; i < shown; ++i) {
    const CauseLine& cause = result.causes[i];
    std::vector<std::string> cells = {i == 0 ? "cause" : "and"};
    if (with_effects) cells.push_back(effect_text(cause, figure, style));
    cells.push_back(printable_text(cause.file + ":" + std::to_string(cause.line)));
    cells.push_back(printable_text(change_words(cause, style)));
    table.row(cells);
  }
  if (with_effects && *result.together != 0)
    table.row({"and", format_growth(figure, *result.together, 0, style), "together", ""});
  std::string out = table.text();
  if (result.causes.size() > shown)
    out += "         and " + std::to_string(result.causes.size() - shown) + " more lines\n";
  return out;
}

// Alive at the peak, with its growth where there is a base.
std::string parts_text(const CheckResult& result, const TextStyle& style) {
  std::map<Category, std::int64_t> before;
  for (const PeakPart& part : result.base_parts) before[part.category] = part.bytes;
  std::vector<PeakPart> parts = result.parts;
  std::ranges::stable_sort(parts, [](const PeakPart& a, const PeakPart& b) { return a.bytes > b.bytes; });
  std::erase_if(parts, [&](const PeakPart& p) { return p.bytes == 0 && before[p.category] == 0; });
  if (parts.empty()) return "";
  std::vector<std::int64_t> values;
  for (const PeakPart& part : parts) values.push_back(part.bytes);
  const std::vector<std::int64_t> shares = shares_per_mille(values);
  TextTable table({kLeft, kRight, kRight, kLeft});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string label(name_of(parts[i].category));
    std::ranges::replace(label, '_', ' ');
    table.row({label, styled_bytes(parts[i].bytes, style), format_tenths(shares[i]) + " %",
               result.base_parts.empty()
                   ? ""
                   : format_growth(Figure::peak, parts[i].bytes, before[parts[i].category], style)});
  }
  std::string out = "  alive at the peak";
  if (!result.peak_place.empty()) out += " (" + printable_text(result.peak_place) + ")";
  out += "\n" + table.text("    ");
  std::string modules;
  for (std::size_t i = 0; i < std::min(result.modules.size(), kMostModules); ++i)
    modules += (i > 0 ? (style.unicode ? " · " : " | ") : "") + printable_text(result.modules[i].name) + " " +
               styled_bytes(result.modules[i].bytes, style);
  return modules.empty() ? out : out + "    most in  " + modules + "\n";
}

std::string suggestions_text(const CheckResult& result, const TextStyle& style) {
  if (result.suggestions.empty()) return "";
  TextTable table({kLeft, kRight});
  for (const BudgetSuggestion& way : result.suggestions)
    table.row({printable_text(way.flags), format_amount(way.figure, way.value, style.units)});
  const Assertion& broken = *lead(result);
  return "  any one of these brings " + std::string(name_of(broken.figure)) + " under " +
         format_amount(broken.figure, broken.limit, style.units) + "\n" + table.text("    ");
}

std::string notes_text(const CheckResult& result, const CheckReport& report) {
  std::string out;
  if (!result.check.message.empty())
    out += "  note from " + printable_text(report.file) + ": \"" + printable_text(result.check.message) + "\"\n";
  if (!result.check.owner.empty()) out += "  owner: " + printable_text(result.check.owner) + "\n";
  const auto raisable = [](const Assertion& a) { return a.state == State::fail && can_be_raised(a); };
  if (!report.file.empty() && std::ranges::any_of(result.assertions, raisable))
    out += "  to accept it: gpuplan check " + shell_word(printable_text(result.check.name)) + " --update\n";
  return out;
}

}  // namespace

std::string failure_text(const CheckResult& result, const CheckReport& report, const TextStyle& style) {
  if (result.state == State::error) return result.error_report;
  const Assertion* const first = lead(result);
  // What the command line says needs no place.
  const auto place = [&](const Assertion& a) { return report.file.empty() ? "" : excerpt(a.mark, limit_label(a)); };
  std::string out = first != nullptr ? place(*first) : "";
  for (const Assertion& a : result.assertions)
    if (&a != first && (a.state == State::fail || a.state == State::warn))
      out += "  also: " + printable_text(sentence(a, style.units)) + "\n" + place(a);
  if (result.state == State::warn) return out + causes_text(result, style);
  return out + causes_text(result, style) + parts_text(result, style) + suggestions_text(result, style) +
         notes_text(result, report);
}

}  // namespace gpuplan
