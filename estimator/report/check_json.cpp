#include <algorithm>

#include "estimator/report/check_keys.h"
#include "estimator/report/check_report.h"
#include "estimator/report/schema_parts.h"

namespace gpuplan {
namespace {

using schema::Json, schema::list_of, schema::nullable, schema::object, schema::or_null, schema::text_or_null,
    schema::type;

Json number_or_null(const std::optional<std::int64_t>& n) { return n ? Json(*n) : Json(nullptr); }

std::string place(const SourceMark& mark) {
  return (mark.source != nullptr ? mark.source->name : "") + ":" + std::to_string(mark.line) + ":" +
         std::to_string(mark.column);
}

Json figures_json(const FigureValues& figures) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kFigureKeys.size(); ++i) json[kFigureKeys[i]] = number_or_null(figures.values[i]);
  return json;
}

Json assertion_json(const Assertion& a) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "parameters", "flop", "nanoseconds",
                                                 "micro_usd_per_million_samples"};
  return {{"kind", name_of(a.kind)},
          {"figure", name_of(a.figure)},
          {"pattern", text_or_null(a.pattern)},
          {"subject", text_or_null(a.subject)},
          {"unit", kUnits[static_cast<std::size_t>(unit_of(a.figure))]},
          {"value", a.value},
          {"limit", a.limit},
          {"base", number_or_null(a.base)},
          {"state", name_of(a.state)},
          {"inherited", a.inherited},
          {"at", place(a.mark)},
          {"text", text_or_null(a.text)}};
}

Json modules_json(const CheckResult& result) {
  Json list = Json::array();
  for (std::size_t i = 0; i < result.measured.modules.size(); ++i)
    for (const ModuleFigures& module : result.measured.modules[i])
      list.push_back({{"pattern", result.check.modules[i].pattern},
                      {"path", module.path},
                      {"figures", figures_json(module.figures)}});
  return list;
}

Json parts_json(const std::vector<PeakPart>& parts) {
  Json list = Json::array();
  for (const PeakPart& part : parts)
    list.push_back(
        {{"category", name_of(part.category)}, {"bytes", part.bytes}, {"confidence", name_of(part.confidence)}});
  return list;
}

Json lines_json(const std::vector<CauseLine>& lines) {
  Json list = Json::array();
  for (const CauseLine& c : lines)
    list.push_back({{"at", c.file + ":" + std::to_string(c.line) + ":" + std::to_string(c.column)},
                    {"what", c.what},
                    {"from", text_or_null(c.from)},
                    {"to", text_or_null(c.to)},
                    {"effect", number_or_null(c.effect)},
                    {"with_previous", c.with_previous}});
  return list;
}

Json result_json(const CheckResult& result) {
  Json assertions = Json::array(), suggestions = Json::array();
  for (const Assertion& a : result.assertions) assertions.push_back(assertion_json(a));
  for (const BudgetSuggestion& s : result.suggestions)
    suggestions.push_back({{"flags", s.flags}, {"figure", name_of(s.figure)}, {"value", s.value}});
  const Check& check = result.check;
  return {{"name", check.name},
          {"model", check.model},
          {"at", place(check.mark)},
          {"run", text_or_null(result.run)},
          {"state", name_of(result.state)},
          {"headline", headline(result)},
          {"figures", figures_json(result.measured.figures)},
          {"base_figures", result.base ? figures_json(*result.base) : Json(nullptr)},
          {"base_note", text_or_null(result.base_note)},
          {"assertions", assertions},
          {"modules", modules_json(result)},
          {"peak",
           {{"place", text_or_null(result.peak_place)},
            {"parts", parts_json(result.parts)},
            {"base_parts", parts_json(result.base_parts)}}},
          {"causes", lines_json(result.causes)},
          {"causes_together", number_or_null(result.together)},
          {"limit_changes", lines_json(result.limit_changes)},
          {"suggestions", suggestions},
          {"message", text_or_null(check.message)},
          {"owner", text_or_null(check.owner)},
          {"skip_until", check.skip_until ? Json(date_text(*check.skip_until)) : Json(nullptr)},
          {"reason", text_or_null(check.reason)},
          {"price", text_or_null(result.price)},
          {"error", text_or_null(result.error)}};
}

Json figures_schema(bool may_be_null) {
  Json properties = Json::object();
  for (const char* key : kFigureKeys) properties[key] = nullable("integer");
  return may_be_null ? or_null(object(std::move(properties))) : object(std::move(properties));
}

Json result_schema() {
  const Json lines = list_of(object({{"at", type("string")},
                                     {"what", type("string")},
                                     {"from", nullable("string")},
                                     {"to", nullable("string")},
                                     {"effect", nullable("integer")},
                                     {"with_previous", type("boolean")}}));
  const Json parts =
      list_of(object({{"category", type("string")}, {"bytes", type("integer")}, {"confidence", type("string")}}));
  return object(
      {{"name", type("string")},
       {"model", type("string")},
       {"at", type("string")},
       {"run", nullable("string")},
       {"state", {{"enum", {"ok", "muted", "warn", "fail", "error"}}}},
       {"headline", type("string")},
       {"figures", figures_schema(false)},
       {"base_figures", figures_schema(true)},
       {"base_note", nullable("string")},
       {"assertions", list_of(object({{"kind", {{"enum", {"max", "min", "warn", "growth", "fits"}}}},
                                      {"figure", type("string")},
                                      {"pattern", nullable("string")},
                                      {"subject", nullable("string")},
                                      {"unit", type("string")},
                                      {"value", type("integer")},
                                      {"limit", type("integer")},
                                      {"base", nullable("integer")},
                                      {"state", type("string")},
                                      {"inherited", type("boolean")},
                                      {"at", type("string")},
                                      {"text", nullable("string")}}))},
       {"modules",
        list_of(object({{"pattern", type("string")}, {"path", type("string")}, {"figures", figures_schema(false)}}))},
       {"peak", object({{"place", nullable("string")}, {"parts", parts}, {"base_parts", parts}})},
       {"causes", lines},
       {"causes_together", nullable("integer")},
       {"limit_changes", lines},
       {"suggestions",
        list_of(object({{"flags", type("string")}, {"figure", type("string")}, {"value", type("integer")}}))},
       {"message", nullable("string")},
       {"owner", nullable("string")},
       {"skip_until", nullable("string")},
       {"reason", nullable("string")},
       {"price", nullable("string")},
       {"error", nullable("string")}});
}

}  // namespace

std::string check_json(const CheckReport& report, std::string_view version) {
  Json checks = Json::array();
  for (const CheckResult& result : report.results) checks.push_back(result_json(result));
  const bool has_base = !report.base_rule.empty();
  const Json json = {
      {"schema", "gpuplan.check/1"},
      {"tool", {{"name", "gpuplan"}, {"version", version}}},
      {"file", text_or_null(report.file)},
      {"base",
       has_base ? Json({{"commit", text_or_null(report.base_commit)}, {"rule", report.base_rule}}) : Json(nullptr)},
      {"summary",
       {{"checks", report.results.size()},
        {"ok", report.count(State::ok)},
        {"muted", report.count(State::muted)},
        {"warned", report.count(State::warn)},
        {"failed", report.count(State::fail)},
        {"not_planned", report.count(State::error)}}},
      {"checks", checks},
      {"warnings", report.warnings}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string check_json_schema() {
  Json properties = {{"schema", {{"const", "gpuplan.check/1"}}},
                     {"tool", object({{"name", type("string")}, {"version", type("string")}})},
                     {"file", nullable("string")},
                     {"base", or_null(object({{"commit", nullable("string")}, {"rule", type("string")}}))},
                     {"summary", object({{"checks", type("integer")},
                                         {"ok", type("integer")},
                                         {"muted", type("integer")},
                                         {"warned", type("integer")},
                                         {"failed", type("integer")},
                                         {"not_planned", type("integer")}})},
                     {"checks", list_of(result_schema())},
                     {"warnings", list_of(type("string"))}};
  return schema::document("gpuplan check --format json", std::move(properties));
}

}  // namespace gpuplan
