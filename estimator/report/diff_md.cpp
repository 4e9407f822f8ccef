#include <algorithm>

#include "estimator/report/change_text.h"
#include "estimator/report/diff_report.h"
#include "estimator/report/escape.h"
#include "estimator/report/text_table.h"

namespace gpuplan {

namespace {

constexpr std::size_t kMostRows = 20;  // of a list: a comment on GitHub has 65,536 characters at most

std::string side_text(const DiffSide& side) {
  const std::string name = side.commit.empty() ? markdown_text(side.name) : markdown_code(side.name);
  const std::string file = side.renamed ? ", then " + markdown_code(side.file) : "";
  return name + (side.rule.empty() ? "" : " (" + markdown_text(side.rule) + ")") + file;
}

std::string bytes_table(const std::string& title, const std::vector<Change>& changes, const Change& total,
                        const TextStyle& style, bool is_markdown = false) {
  if (changes.empty()) return "";
  const std::vector<Change> list = largest_of(changes, kMostRows);
  const ByteColumn column = byte_column(list, total, style);
  TextTable table({kRight, kRight, kLeft});
  table.row({"Δ " + column.unit, "Δ %", title});
  for (std::size_t i = 0; i < list.size(); ++i)
    table.row({column.rows[i], percent_text(list[i]), is_markdown ? list[i].name : markdown_text(list[i].name)});
  table.row({"**" + column.total + "**", percent_text(total), "**total**"});
  return table.markdown() + "\n";
}

std::string phases_table(const Differences& d, const TextStyle& style) {
  if (d.phases.empty()) return "";
  TextTable table({kLeft, kRight, kRight, kRight});
  table.row({"peak of", "base", "now", "Δ"});
  for (const Change& c : d.phases)
    table.row(
        {c.name, styled_bytes(c.base, style), styled_bytes(c.now, style), delta_text(Metric::peak, c.delta(), style)});
  return table.markdown() + "\n";
}

std::string tensors_table(const Differences& d, const TextStyle& style) {
  if (d.tensors.empty()) return "";
  TextTable table({kRight, kRight, kRight, kRight, kLeft});
  table.row({"Δ", "tensor", "base", "now", "on one side only"});
  for (std::size_t i = 0; i < std::min(d.tensors.size(), kMostRows); ++i) {
    const OneSided& t = d.tensors[i];
    table.row({delta_text(Metric::peak, t.delta_bytes(), style), styled_bytes(t.bytes, style), format_count(t.base),
               format_count(t.now), markdown_text(t.now > t.base ? t.now_where : t.base_where)});
  }
  return table.markdown() + "\n";
}

std::string cause_words(const Cause& cause) {
  const std::string place = place_text(cause);
  return markdown_code(place.empty() ? "--set" : place) + " " + markdown_code(cause_text(cause, true));
}

// What each of several causes does to the peak by itself.
std::string effects(const DiffReport& report, const TextStyle& style) {
  const std::vector<CauseRow> rows = cause_rows(report);
  if (rows.empty()) return "";
  std::vector<Change> changes;
  for (const CauseRow& row : rows) {
    std::string name = row.rest ? "together" : "";
    for (const std::size_t i : row.causes)
      name += (name.empty() ? "" : row.rest ? ", with " : "<br>") + cause_words(report.causes[i]);
    changes.push_back(row.effect);
    changes.back().name = name;
  }
  return bytes_table("peak, by cause", changes, report.differences->totals.front().total, style, true);
}

std::string reasons(const DiffReport& report, const TextStyle& style) {
  const bool same = !report.differs();
  std::string out = effects(report, style);
  if (same) out += "**No difference** in any figure\n\n";
  for (const RunChange& c : report.run_changes)
    out += "**Run** " + markdown_text(c.name + ": " + c.base + " → " + c.now) + "\n\n";
  const std::size_t all = report.effects ? 0 : report.causes.size(), shown = std::min(all, kMostRows);
  for (std::size_t i = 0; i < shown; ++i)
    out += (same ? "**Change** " : "**Cause** ") + cause_words(report.causes[i]) + "\n\n";
  if (shown < all) out += "and " + std::to_string(all - shown) + " more\n\n";
  return out;
}

}  // namespace

std::string diff_md(const DiffReport& report, const TextStyle& style) {
  const std::string& file = report.now.file.empty() ? report.base.file : report.now.file;
  std::string out = "### " + markdown_text(file) + ": ";
  if (!report.differences) {
    const bool is_new = !report.base.figures;
    const Figures& figures = *(is_new ? report.now : report.base).figures;
    return out + (is_new ? "new model, peak " : "deleted model, peak was ") +
           amount_text(Metric::peak, figures.allocated_bytes, style) + "\n\n" + side_text(report.base) + " → " +
           side_text(report.now) + "\n";
  }
  const Differences& d = *report.differences;
  const Change& peak = d.totals.front().total;
  out += "peak " + change_text(Metric::peak, peak, style) + "\n\n" + side_text(report.base) + " → " +
         side_text(report.now) + "\n\n";
  TextTable totals({kLeft, kRight, kRight, kRight, kRight});
  totals.row({"", "base", "now", "Δ", "Δ %"});
  for (const Difference& t : d.totals)
    totals.row({label_of(t.metric), amount_text(t.metric, t.total.base, style),
                amount_text(t.metric, t.total.now, style), delta_text(t.metric, t.total.delta(), style),
                percent_text(t.total)});
  out += totals.markdown() + "\n";
  for (const DiffReport::LimitVerdict& v : report.limits)
    out += std::string(v.exceeded ? "❌ " : "✅ ") + markdown_code(v.limit.text) + ": " +
           change_text(v.limit.metric, v.change, style) + "\n\n";
  out += reasons(report, style);
  std::vector<Change> categories = d.categories;
  for (Change& c : categories) c.name = category_words(c.name);
  const std::string tables = bytes_table("alive at the peak", categories, peak, style) +
                             bytes_table(report.by_line ? "alive at the peak, by line" : "alive at the peak, by module",
                                         d.modules, peak, style) +
                             phases_table(d, style) + tensors_table(d, style);
  return tables.empty() ? out
                        : out + "<details><summary>What is alive at the peak</summary>\n\n" + tables + "</details>\n";
}

}  // namespace gpuplan
