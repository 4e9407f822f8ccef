#include <algorithm>

#include "estimator/base/excerpt.h"
#include "estimator/report/change_text.h"
#include "estimator/report/diff_report.h"
#include "estimator/report/text_table.h"

namespace gpuplan {

namespace {

constexpr std::size_t kShownRows = 12;  // of one table; -v shows all

std::string cause_place(const Cause& cause) {
  const std::string place = place_text(cause);
  return place.empty() ? "--set" : place;
}

class DiffScreen : public StyledScreen {
 public:
  DiffScreen(const DiffReport& report, const TextStyle& style) : StyledScreen(style), report_(report) {}

  std::string headline() const;
  std::string missing() const;
  std::string totals() const;
  std::string rows(const std::string& title, const std::vector<Change>& changes, const Change& total) const;
  std::string counts(const std::string& title, Metric metric, const std::vector<Change>& changes,
                     const Change& total) const;
  std::string phases() const;
  std::string tensors() const;
  std::string tables() const;
  std::string reasons() const;
  std::string effects() const;
  std::string limits() const;

 private:
  std::string arrow() const { return style_.unicode ? " → " : " -> "; }
  std::string side(const DiffSide& side) const {
    const std::string name = printable_text(side.name);
    return side.rule.empty() ? name : name + " (" + side.rule + ")";
  }
  // Whatever was changed, no figure shows it.
  bool same() const { return !report_.differs(); }
  std::vector<Change> shown(const std::vector<Change>& changes) const {
    return style_.verbose ? changes : largest_of(changes, kShownRows);
  }

  const DiffReport& report_;
};

std::string DiffScreen::headline() const {
  const DiffSide& now = report_.now;
  std::string out = "base " + side(report_.base) + arrow() + side(now) + "\n";
  const std::string file = printable_text(now.file.empty() ? report_.base.file : now.file);
  if (file != now.name) out += file;
  if (report_.base.renamed) out += " (" + printable_text(report_.base.file) + " at " + report_.base.name + ")";
  const Figures* const figures = now.figures ? &*now.figures : report_.base.figures ? &*report_.base.figures : nullptr;
  if (figures == nullptr) return out + "\n";
  for (const auto& [name, value] : figures->run) {
    if (value.empty() || (name == "gpu" && value == "none")) continue;
    const std::string words = name == "batch" ? "batch " + value : name == "pytorch" ? "PyTorch " + value : value;
    out += (out.ends_with('\n') ? "" : dot()) + printable_text(words);
  }
  return out.ends_with('\n') ? out : out + "\n";
}

// Only one side has the model.
std::string DiffScreen::missing() const {
  const bool is_new = !report_.base.figures;
  const DiffSide& without = is_new ? report_.base : report_.now;
  const DiffSide& with = is_new ? report_.now : report_.base;
  std::string out = "\n  " + paint("1", is_new ? "new model" : "deleted model") + dot() + "there is no " +
                    printable_text(with.file) + (without.commit.empty() ? " in the " : " at ") +
                    printable_text(without.name) + "\n\n";
  TextTable table({kLeft, kRight});
  for (const Metric metric : kMetrics)
    if (const std::optional<std::int64_t> value = value_of(*with.figures, metric))
      table.row({label_of(metric), amount_text(metric, *value, style_)});
  return out + table.text();
}

std::string DiffScreen::totals() const {
  TextTable table({kLeft, kRight, kLeft, kRight, kRight, kRight});
  for (const Difference& d : report_.differences->totals)
    table.row({label_of(d.metric), amount_text(d.metric, d.total.base, style_), style_.unicode ? "→" : "->",
               amount_text(d.metric, d.total.now, style_), delta_text(d.metric, d.total.delta(), style_),
               percent_text(d.total)});
  return "\n" + table.text();
}

std::string DiffScreen::rows(const std::string& title, const std::vector<Change>& changes, const Change& total) const {
  if (changes.empty()) return "";
  const std::vector<Change> list = shown(changes);
  const ByteColumn column = byte_column(list, total, style_);
  const std::string delta = style_.unicode ? "Δ " : "+/- ";
  TextTable table({kRight, kRight, kLeft});
  table.row({delta + column.unit, delta + "%", title});
  for (std::size_t i = 0; i < list.size(); ++i)
    table.row({column.rows[i], percent_text(list[i]), printable_text(list[i].name)});
  table.row({column.total, percent_text(total), "TOTAL"});
  return "\n" + table.text();
}

std::string DiffScreen::counts(const std::string& title, Metric metric, const std::vector<Change>& changes,
                               const Change& total) const {
  if (changes.empty()) return "";
  const std::string delta = style_.unicode ? "Δ" : "+/-";
  TextTable table({kRight, kRight, kLeft});
  table.row({delta, delta + " %", title});
  for (const Change& c : shown(changes))
    table.row({delta_text(metric, c.delta(), style_), percent_text(c), printable_text(c.name)});
  table.row({delta_text(metric, total.delta(), style_), percent_text(total), "TOTAL"});
  return "\n" + table.text();
}

std::string DiffScreen::tables() const {
  const Differences& d = *report_.differences;
  const auto total = [&](Metric metric) {
    const auto found = std::ranges::find(d.totals, metric, &Difference::metric);
    return found == d.totals.end() ? Change{} : found->total;
  };
  std::vector<Change> categories = d.categories;
  for (Change& c : categories) c.name = category_words(c.name);
  return rows("alive at the peak", categories, total(Metric::peak)) +
         rows(report_.by_line ? "alive at the peak, by line" : "alive at the peak, by module", d.modules,
              total(Metric::peak)) +
         phases() + tensors() +
         counts("params, by module", Metric::parameters, d.module_parameters, total(Metric::parameters)) +
         (style_.verbose ? counts("step FLOP, by module", Metric::step_flops, d.module_flops, total(Metric::step_flops))
                         : "");
}

std::string DiffScreen::phases() const {
  const std::vector<Change>& all = report_.differences->phases;
  if (all.empty()) return "";
  TextTable table({kLeft, kRight, kLeft, kRight, kRight});
  table.row({"peak of", "base", "", "now", "+/-"});
  for (const Change& c : all)
    table.row({c.name, styled_bytes(c.base, style_), style_.unicode ? "→" : "->", styled_bytes(c.now, style_),
               delta_text(Metric::peak, c.delta(), style_)});
  return "\n" + table.text();
}

// How many of one size each side has at the peak.
std::string DiffScreen::tensors() const {
  const std::vector<OneSided>& all = report_.differences->tensors;
  if (all.empty()) return "";
  TextTable table({kRight, kRight, kRight, kRight, kLeft});
  table.row({style_.unicode ? "Δ" : "+/-", "tensor", "base", "now", "on one side only"});
  const std::size_t most = style_.verbose ? all.size() : std::min(all.size(), kShownRows);
  for (std::size_t i = 0; i < most; ++i) {
    const OneSided& t = all[i];
    table.row({delta_text(Metric::peak, t.delta_bytes(), style_), styled_bytes(t.bytes, style_), format_count(t.base),
               format_count(t.now), printable_text(t.now > t.base ? t.now_where : t.base_where)});
  }
  return "\n" + table.text() +
         (most < all.size()
              ? "  and " + format_count(static_cast<std::int64_t>(all.size() - most)) + " more sizes: -v shows all\n"
              : "");
}

// What each of several causes does to the peak by itself.
std::string DiffScreen::effects() const {
  const std::vector<CauseRow> rows = cause_rows(report_);
  if (rows.empty()) return "";
  const Change& total = report_.differences->totals.front().total;
  std::vector<Change> changes;
  for (const CauseRow& row : rows) changes.push_back(row.effect);
  const std::vector<Change> list = shown(changes);
  const ByteColumn column = byte_column(list, total, style_);
  const std::string delta = style_.unicode ? "Δ " : "+/- ";
  TextTable table({kRight, kRight, kLeft, kLeft});
  table.row({delta + column.unit, delta + "%", "peak, by cause", ""});
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string amount = column.rows[i], percent = percent_text(list[i]);
    const bool others = i + 1 == list.size() && list.size() < rows.size();
    if (others || rows[i].rest) {
      table.row({amount, percent, others ? list[i].name : "together", others ? "-v shows all" : ""});
      amount = "not separable";
      percent = "";
    }
    if (others) continue;
    for (const std::size_t k : rows[i].causes) {
      table.row({amount, percent, cause_place(report_.causes[k]), cause_text(report_.causes[k], style_.unicode)});
      amount = rows[i].rest ? "not separable" : "with the one above";
      percent = "";
    }
  }
  table.row({column.total, percent_text(total), "TOTAL", ""});
  return "\n" + table.text();
}

std::string DiffScreen::reasons() const {
  TextTable table({kLeft, kLeft, kLeft});
  for (const RunChange& c : report_.run_changes)
    table.row({"run", printable_text(c.name), printable_text(c.base) + arrow() + printable_text(c.now)});
  const std::size_t all = report_.effects ? 0 : report_.causes.size();
  const std::size_t most = style_.verbose ? all : std::min(all, kShownRows);
  for (std::size_t i = 0; i < most; ++i)
    table.row(
        {same() ? "change" : "cause", cause_place(report_.causes[i]), cause_text(report_.causes[i], style_.unicode)});
  std::string out = table.text();
  if (most < all) out += "  and " + std::to_string(all - most) + " more: -v shows all\n";
  if (report_.causes_known && report_.causes.empty() && report_.run_changes.empty() && report_.differences)
    out += std::string("  ") + (same() ? "no difference: " : "") + "the models are the same once expanded\n";
  else if (same())
    out.insert(0, "  no difference in any figure\n");
  return effects() + (out.empty() ? "" : "\n" + out);
}

std::string DiffScreen::limits() const {
  std::string out;
  for (const DiffReport::LimitVerdict& v : report_.limits) {
    out += "  " + paint(v.exceeded ? "31" : "32", mark_of(!v.exceeded, style_) + " " + printable_text(v.limit.text)) +
           (v.exceeded ? " is exceeded: " : ": ") + change_text(v.limit.metric, v.change, style_) + "\n";
  }
  return out.empty() ? "" : "\n" + out;
}

}  // namespace

std::string diff_text(const DiffReport& report, const TextStyle& style) {
  const DiffScreen screen(report, style);
  if (!report.differences) return screen.headline() + screen.missing();
  if (style.brief) return screen.totals().substr(1) + screen.limits();
  return screen.headline() + screen.totals() + screen.tables() + screen.reasons() + screen.limits();
}

}  // namespace gpuplan
