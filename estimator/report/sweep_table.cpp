#include "estimator/report/sweep_table.h"

#include <algorithm>

#include "estimator/base/csv.h"
#include "estimator/base/number_text.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

std::string place(const SweepFigures& f) {
  return f.where.empty() || f.where == f.phase ? f.phase : f.phase + " of " + f.where;
}

// "✔ 52 %": of what the GPU has.
std::string fit_words(const SweepFigures& f, const TextStyle& style) {
  if (f.usable_bytes <= 0) return "";
  const std::int64_t percent = f.device_bytes / std::max<std::int64_t>(f.usable_bytes / 100, 1);
  return mark_of(f.fits, style) + " " + format_count(percent) + " %" +
         (!f.fits && f.runs ? ", runs: " + retries_text(f.retries) : "");
}

TextTable table_of(std::span<const std::string> names, std::span<const SweepRow> rows, const TextStyle& style) {
  const bool limited =
      std::ranges::any_of(rows, [](const SweepRow& r) { return r.figures && r.figures->usable_bytes > 0; });
  std::vector<TextTable::Align> columns(names.size(), right);
  columns.insert(columns.end(), {right, right, right});
  if (limited) columns.push_back(left);
  const bool counted =
      std::ranges::any_of(rows, [](const SweepRow& r) { return r.figures && r.figures->step_flops.has_value(); });
  const bool timed =
      std::ranges::any_of(rows, [](const SweepRow& r) { return r.figures && r.figures->step_seconds.has_value(); });
  if (timed) columns.insert(columns.end(), {right, right});
  const bool shared =
      std::ranges::any_of(rows, [](const SweepRow& r) { return r.figures && r.figures->sent_bytes.has_value(); });
  if (shared) columns.push_back(right);
  if (shared && timed) columns.insert(columns.end(), {right, right});
  if (counted) columns.push_back(right);
  columns.push_back(left);
  TextTable table(columns);
  std::vector<std::string> heading(names.begin(), names.end());
  heading.insert(heading.end(), {"peak", "reserved", "needs"});
  if (limited) heading.emplace_back("fits");
  if (counted) heading.emplace_back("per step");
  if (timed) heading.insert(heading.end(), {"step", "samples/s"});
  if (shared) heading.emplace_back("a rank sends");
  if (shared && timed) heading.insert(heading.end(), {"communication", "scaling"});
  heading.emplace_back("peak at");
  table.row(heading);
  for (const SweepRow& r : rows) {
    std::vector<std::string> cells = r.values;
    if (r.figures) {
      const SweepFigures& f = *r.figures;
      for (const std::int64_t n : {f.allocated_bytes, f.reserved_bytes, f.device_bytes})
        cells.push_back(styled_bytes(n, style));
      if (limited) cells.push_back(fit_words(f, style));
      if (counted) cells.push_back(f.step_flops ? format_flops(*f.step_flops) : "");
      if (timed) {
        cells.push_back(f.step_seconds ? format_seconds(*f.step_seconds) : "");
        cells.push_back(f.samples_per_second ? format_figure(*f.samples_per_second) : "");
      }
      if (shared) cells.push_back(f.sent_bytes ? styled_bytes(*f.sent_bytes, style) : "");
      if (shared && timed) {
        cells.push_back(f.communication_seconds ? format_seconds(*f.communication_seconds) : "");
        cells.push_back(f.scaling_efficiency ? format_figure(100 * *f.scaling_efficiency) + " %" : "");
      }
      cells.push_back(place(f));
    } else {
      cells.resize(columns.size() - 1);
      cells.push_back(r.error);
    }
    table.row(cells);
  }
  return table;
}

Json line_of(std::span<const std::string> names, const SweepRow& r, std::int64_t points) {
  Json over = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) over[names[i]] = r.values[i];
  Json line = {{"schema", "gpuplan.sweep/1"}, {"point", r.point}, {"over", over}};
  const auto figure = [&](const auto& of) { return r.figures ? Json(of(*r.figures)) : Json(nullptr); };
  line["peak_allocated_bytes"] = figure([](const SweepFigures& f) { return f.allocated_bytes; });
  line["peak_reserved_bytes"] = figure([](const SweepFigures& f) { return f.reserved_bytes; });
  line["device_bytes"] = figure([](const SweepFigures& f) { return f.device_bytes; });
  const bool limited = r.figures && r.figures->usable_bytes > 0;
  line["usable_bytes"] = limited ? Json(r.figures->usable_bytes) : Json(nullptr);
  line["limit_bytes"] = limited ? Json(r.figures->limit_bytes) : Json(nullptr);
  line["fits"] = limited ? Json(r.figures->fits) : Json(nullptr);
  line["runs"] = limited ? Json(r.figures->runs) : Json(nullptr);
  line["retries"] = figure([](const SweepFigures& f) { return f.retries; });
  line["phase"] = figure([](const SweepFigures& f) { return f.phase; });
  line["where"] = figure([](const SweepFigures& f) { return f.where; });
  const auto known = [&](const auto SweepFigures::*of) {
    return r.figures ? or_null((*r.figures).*of) : Json(nullptr);
  };
  line["step_flops"] = known(&SweepFigures::step_flops);
  line["step_seconds"] = known(&SweepFigures::step_seconds);
  line["samples_per_second"] = known(&SweepFigures::samples_per_second);
  line["sent_bytes"] = known(&SweepFigures::sent_bytes);
  line["communication_seconds"] = known(&SweepFigures::communication_seconds);
  line["scaling_efficiency"] = known(&SweepFigures::scaling_efficiency);
  line["error"] = text_or_null(r.error);
  line["points"] = points;
  return line;
}

}  // namespace

std::string sweep_text(std::span<const std::string> names, std::span<const SweepRow> rows, const TextStyle& style) {
  return table_of(names, rows, style).text();
}

std::string sweep_md(std::span<const std::string> names, std::span<const SweepRow> rows) {
  return table_of(names, rows, {}).markdown();
}

std::string sweep_json_lines(std::span<const std::string> names, std::span<const SweepRow> rows, std::int64_t points,
                             const std::optional<AskedSearch>& search) {
  std::string out;
  for (const SweepRow& r : rows) {
    Json line = line_of(names, r, points);
    if (search)
      line["search"] = {{"version", search->version},
                        {"command", search->command},
                        {"batch", search->batch},
                        {"gpus", search->gpus},
                        {"network", search->network}};
    out += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return out;
}

std::string sweep_json_schema() {
  constexpr std::string_view kKeys = R"(schema:=gpuplan.sweep/1 point:integer
    over:string{} peak_allocated_bytes peak_reserved_bytes device_bytes usable_bytes limit_bytes:integer?
    fits runs:boolean? retries:integer? phase where:string? step_flops:integer?
    step_seconds samples_per_second:number? sent_bytes:integer? communication_seconds scaling_efficiency:number?
    error:string? points:integer search?:{version command batch gpus network:string})";
  return schema::document("a line of gpuplan sweep --format jsonl", kKeys);
}

std::string sweep_csv_heading(std::span<const std::string> names) {
  std::string out = "point";
  for (const std::string& name : names) out += "," + csv_field(name);
  return out +
         ",peak_allocated_bytes,peak_reserved_bytes,device_bytes,usable_bytes,fits,retries,phase,where,step_flops,"
         "error,step_seconds,samples_per_second,sent_bytes,communication_seconds,scaling_efficiency,runs\n";
}

std::string sweep_csv_lines(std::span<const SweepRow> rows) {
  std::string out;
  const auto number = [](const std::optional<double>& value) { return value ? number_text(*value) : ""; };
  for (const SweepRow& r : rows) {
    out += std::to_string(r.point);
    for (const std::string& value : r.values) out += "," + csv_field(value);
    if (r.figures) {
      const SweepFigures& f = *r.figures;
      for (const std::int64_t n : {f.allocated_bytes, f.reserved_bytes, f.device_bytes}) out += "," + std::to_string(n);
      const bool limited = f.usable_bytes > 0;
      out += limited ? "," + std::to_string(f.usable_bytes) + (f.fits ? ",true," : ",false,") : ",,,";
      out += std::to_string(f.retries) + "," + csv_field(f.phase) + "," + csv_field(f.where) + "," +
             (f.step_flops ? std::to_string(*f.step_flops) : "") + ",," + number(f.step_seconds) + "," +
             number(f.samples_per_second) + "," + (f.sent_bytes ? std::to_string(*f.sent_bytes) : "") + "," +
             number(f.communication_seconds) + "," + number(f.scaling_efficiency) +
             (limited ? f.runs ? ",true\n" : ",false\n" : ",\n");
    } else {
      out += ",,,,,,,,,," + csv_field(r.error) + ",,,,,,\n";
    }
  }
  return out;
}

}  // namespace gpuplan
