#include "estimator/report/diff_report.h"

#include <algorithm>
#include <cstdlib>

#include "estimator/base/csv.h"
#include "estimator/base/excerpt.h"
#include "estimator/base/integers.h"
#include "estimator/base/list_text.h"

namespace gpuplan {

bool DiffReport::within_limits() const { return std::ranges::none_of(limits, &LimitVerdict::exceeded); }

std::string_view unit_of(Metric metric) {
  switch (metric) {
    case Metric::peak:
    case Metric::reserved:
    case Metric::device: return "bytes";
    case Metric::parameters: return "elements";
    case Metric::step_flops: return "FLOP";
    case Metric::step_time: return "nanoseconds";
  }
  return "";
}

std::string cause_text(const Cause& cause, bool unicode) {
  std::string what = printable_text(cause.what);
  const std::string from = printable_text(cause.from), to = printable_text(cause.to);
  switch (cause.kind) {
    case Cause::Kind::changed: return what + ": " + from + (unicode ? " → " : " -> ") + to;
    case Cause::Kind::added: return what + ": added" + (to.empty() ? "" : ", " + to);
    case Cause::Kind::removed: return what + ": removed" + (from.empty() ? "" : ", was " + from);
    case Cause::Kind::moved: return what + ": moved";
  }
  return what;
}

std::string place_text(const Cause& cause) {
  // What is gone has a place in the base only.
  const Place& place = cause.kind == Cause::Kind::removed && cause.was.line > 0 ? cause.was : cause.at;
  return place.line == 0 ? "" : printable_text(place.file) + ":" + std::to_string(place.line);
}

std::vector<CauseRow> cause_rows(const DiffReport& report) {
  if (!report.effects || !report.differences) return {};
  const std::int64_t base = report.differences->totals.front().total.base;
  const auto row = [&](std::vector<std::size_t> causes, std::int64_t delta) {
    return CauseRow{std::move(causes), {"", base, checked_add(base, delta)}, false};
  };
  std::vector<CauseRow> rows;
  std::vector<bool> known(report.causes.size(), false);
  for (const Effect& effect : report.effects->effects) {
    rows.push_back(row(effect.changes, effect.delta));
    for (const std::size_t i : effect.changes) known[i] = true;
  }
  std::ranges::stable_sort(rows, [](const CauseRow& a, const CauseRow& b) {
    return std::abs(a.effect.delta()) > std::abs(b.effect.delta());
  });
  CauseRow rest = row({}, report.effects->together);
  rest.rest = true;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (!known[i]) rest.causes.push_back(i);
  if (!rest.causes.empty() || report.effects->together != 0) rows.push_back(std::move(rest));
  return rows;
}

std::string diff_csv(const DiffReport& report) {
  std::string out = "section,name,unit,base,now,delta\n";
  const auto line = [&](std::string_view section, std::string_view unit, const Change& c) {
    out += std::string(section) + "," + csv_field(c.name) + "," + std::string(unit) + "," + std::to_string(c.base) +
           "," + std::to_string(c.now) + "," + std::to_string(c.delta()) + "\n";
  };
  if (!report.differences) return out;
  for (const Difference& d : report.differences->totals) line("total", unit_of(d.metric), d.total);
  for (const Change& c : report.differences->categories) line("peak by category", "bytes", c);
  for (const Change& c : report.differences->modules)
    line(report.by_line ? "peak by line" : "peak by module", "bytes", c);
  for (const Change& c : report.differences->phases) line("peak by phase", "bytes", c);
  for (const OneSided& t : report.differences->tensors)
    line("tensors on one side", "tensors of " + std::to_string(t.bytes) + " B",
         {t.now > t.base ? t.now_where : t.base_where, t.base, t.now});
  for (const Change& c : report.differences->module_parameters) line("params by module", "elements", c);
  for (const Change& c : report.differences->module_flops) line("flop by module", "FLOP", c);
  for (const CauseRow& row : cause_rows(report)) {
    const std::string name = joined(row.causes, "; ", [&](std::size_t i) {
      return place_text(report.causes[i]) + " " + cause_text(report.causes[i], true);
    });
    line("peak by cause", "bytes", {row.rest ? "together" : name, row.effect.base, row.effect.now});
  }
  return out;
}

}  // namespace gpuplan
