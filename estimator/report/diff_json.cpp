#include "estimator/report/diff_report.h"
#include "estimator/report/schema_parts.h"

namespace gpuplan {

namespace {

using schema::Json, schema::list_of, schema::nullable, schema::object, schema::or_null, schema::text_or_null,
    schema::type, schema::with;

Json side_json(const DiffSide& side) {
  return {{"name", side.name},
          {"commit", text_or_null(side.commit)},
          {"rule", text_or_null(side.rule)},
          {"file", text_or_null(side.file)},
          {"renamed", side.renamed},
          {"missing", !side.figures.has_value()}};
}

Json change_json(const Change& change) {
  const std::optional<std::int64_t> tenths = per_mille(change);
  return {{"base", change.base},
          {"now", change.now},
          {"delta", change.delta()},
          {"delta_per_mille", tenths ? Json(*tenths) : Json(nullptr)}};
}

Json rows_json(const std::vector<Change>& changes) {
  Json list = Json::array();
  for (const Change& change : changes) {
    Json row = {{"name", change.name}};
    row.update(change_json(change));
    list.push_back(std::move(row));
  }
  return list;
}

Json totals_json(const DiffReport& report) {
  Json list = Json::array();
  for (const Metric metric : kMetrics) {
    const auto value = [&](const DiffSide& side) {
      const auto amount = side.figures ? value_of(*side.figures, metric) : std::nullopt;
      return amount ? Json(*amount) : Json(nullptr);
    };
    Json row = {{"metric", name_of(metric)}, {"unit", unit_of(metric)}};
    Json figures = {
        {"base", value(report.base)}, {"now", value(report.now)}, {"delta", nullptr}, {"delta_per_mille", nullptr}};
    if (figures["base"].is_null() && figures["now"].is_null()) continue;
    if (report.differences)
      for (const Difference& d : report.differences->totals)
        if (d.metric == metric) figures = change_json(d.total);
    row.update(figures);
    list.push_back(std::move(row));
  }
  return list;
}

Json place_json(const Place& place) {
  if (place.line == 0) return nullptr;
  return {{"file", place.file}, {"line", place.line}, {"column", place.column}};
}

Json causes_json(const DiffReport& report) {
  if (!report.causes_known) return nullptr;
  static constexpr const char* kKinds[] = {"changed", "added", "removed", "moved"};
  Json list = Json::array();
  for (const Cause& cause : report.causes)
    list.push_back({{"kind", kKinds[static_cast<int>(cause.kind)]},
                    {"what", cause.what},
                    {"from", text_or_null(cause.from)},
                    {"to", text_or_null(cause.to)},
                    {"at", place_json(cause.at)},
                    {"was_at", place_json(cause.was)}});
  return list;
}

Json effects_json(const DiffReport& report) {
  if (!report.effects) return nullptr;
  Json list = Json::array();
  for (const Effect& effect : report.effects->effects)
    list.push_back({{"causes", effect.changes}, {"delta", effect.delta}});
  return {{"effects", std::move(list)}, {"together", report.effects->together}};
}

}  // namespace

std::string diff_json(const DiffReport& report, std::string_view version) {
  static const Differences nothing;
  const Differences& d = report.differences ? *report.differences : nothing;
  Json limits = Json::array(), run = Json::array();
  for (const DiffReport::LimitVerdict& v : report.limits)
    limits.push_back({{"limit", v.limit.text}, {"metric", name_of(v.limit.metric)}, {"exceeded", v.exceeded}});
  for (const RunChange& c : report.run_changes) run.push_back({{"name", c.name}, {"base", c.base}, {"now", c.now}});
  const Json json = {{"schema", "gpuplan.diff/1"},
                     {"tool", {{"name", "gpuplan"}, {"version", version}}},
                     {"base", side_json(report.base)},
                     {"now", side_json(report.now)},
                     {"differs", report.differs()},
                     {"totals", totals_json(report)},
                     {"peak_bytes_by_category", rows_json(d.categories)},
                     {"peak_bytes_by_module", rows_json(d.modules)},
                     {"parameters_by_module", rows_json(d.module_parameters)},
                     {"flops_by_module", rows_json(d.module_flops)},
                     {"causes", causes_json(report)},
                     {"peak_bytes_by_cause", effects_json(report)},
                     {"run_changes", std::move(run)},
                     {"limits", std::move(limits)},
                     {"warnings", report.warnings}};
  // Names of files need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string diff_json_schema() {
  const Json text = type("string"), optional_text = nullable("string"), integer = type("integer");
  const Json optional_integer = nullable("integer"), boolean = type("boolean");
  const Json side = object({{"name", text},
                            {"commit", optional_text},
                            {"rule", optional_text},
                            {"file", optional_text},
                            {"renamed", boolean},
                            {"missing", boolean}});
  const Json change = {{"base", optional_integer},
                       {"now", optional_integer},
                       {"delta", optional_integer},
                       {"delta_per_mille", optional_integer}};
  const Json rows = list_of(object(with({{"name", text}}, change)));
  const Json place = or_null(object({{"file", text}, {"line", integer}, {"column", integer}}));
  const Json causes = or_null(list_of(object({{"kind", {{"enum", {"changed", "added", "removed", "moved"}}}},
                                              {"what", text},
                                              {"from", optional_text},
                                              {"to", optional_text},
                                              {"at", place},
                                              {"was_at", place}})));
  // Causes by their numbers in "causes", from 0, each planned without the others; those of one effect only together.
  const Json effects = or_null(object(
      {{"effects", list_of(object({{"causes", list_of(integer)}, {"delta", integer}}))}, {"together", integer}}));
  const Json metrics = {{"enum", {"peak", "reserved", "device", "params", "flop", "seconds"}}};
  const Json units = {{"enum", {"bytes", "elements", "FLOP", "nanoseconds"}}};
  return schema::document("gpuplan.diff/1",
                          {{"schema", {{"const", "gpuplan.diff/1"}}},
                           {"tool", object({{"name", text}, {"version", text}})},
                           {"base", side},
                           {"now", side},
                           {"differs", boolean},
                           {"totals", list_of(object(with({{"metric", metrics}, {"unit", units}}, change)))},
                           {"peak_bytes_by_category", rows},
                           {"peak_bytes_by_module", rows},
                           {"parameters_by_module", rows},
                           {"flops_by_module", rows},
                           {"causes", causes},
                           {"peak_bytes_by_cause", effects},
                           {"run_changes", list_of(object({{"name", text}, {"base", text}, {"now", text}}))},
                           {"limits", list_of(object({{"limit", text}, {"metric", metrics}, {"exceeded", boolean}}))},
                           {"warnings", list_of(text)}});
}

}  // namespace gpuplan
