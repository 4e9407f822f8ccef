#include <algorithm>

#include "estimator/report/check_keys.h"
#include "estimator/report/check_report.h"
#include "estimator/report/json_parts.h"

namespace gpuplan {
namespace {

std::string place(const SourceMark& mark) {
  return (mark.source != nullptr ? mark.source->name : "") + ":" + std::to_string(mark.line) + ":" +
         std::to_string(mark.column);
}

Json figures_json(const FigureValues& figures) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kFigureKeys.size(); ++i) json[kFigureKeys[i]] = or_null(figures.values[i]);
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
          {"base", or_null(a.base)},
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
                    {"effect", or_null(c.effect)},
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
          {"causes_together", or_null(result.together)},
          {"limit_changes", lines_json(result.limit_changes)},
          {"suggestions", suggestions},
          {"message", text_or_null(check.message)},
          {"owner", text_or_null(check.owner)},
          {"skip_until", check.skip_until ? Json(date_text(*check.skip_until)) : Json(nullptr)},
          {"reason", text_or_null(check.reason)},
          {"price", text_or_null(result.price)},
          {"error", text_or_null(result.error)}};
}

}  // namespace

std::string check_json(const CheckReport& report, std::string_view version) {
  Json checks = Json::array();
  for (const CheckResult& result : report.results) checks.push_back(result_json(result));
  Json json = document_of("gpuplan.check/1", version);
  json["file"] = text_or_null(report.file);
  json["base"] = nullptr;
  if (!report.base_rule.empty())
    json["base"] = {{"commit", text_or_null(report.base_commit)}, {"rule", report.base_rule}};
  json["summary"] = {{"checks", report.results.size()},     {"ok", report.count(State::ok)},
                     {"muted", report.count(State::muted)}, {"warned", report.count(State::warn)},
                     {"failed", report.count(State::fail)}, {"not_planned", report.count(State::error)}};
  json["checks"] = std::move(checks);
  json["warnings"] = report.warnings;
  return json_text(json);
}

std::string check_json_schema() {
  std::string figures = "{";
  for (const char* key : kFigureKeys) figures += std::string(key) + " ";
  figures.back() = ':';
  figures += "integer?}";
  constexpr std::string_view kKeys = R"(schema:=gpuplan.check/1 tool:{name version:string}
    file:string? base:{commit:string? rule:string}?
    summary:{checks ok muted warned failed not_planned:integer}
    checks:{name model at:string run:string? state:ok|muted|warn|fail|error headline:string
      figures:$figures base_figures:$figures? base_note:string?
      assertions:{kind:max|min|warn|growth|fits figure:string pattern subject:string? unit:string value limit:integer
        base:integer? state:string inherited:boolean at:string text:string?}[]
      modules:{pattern path:string figures:$figures}[]
      peak:{place:string? parts base_parts:{category:string bytes:integer confidence:string}[]}
      causes:$lines causes_together:integer? limit_changes:$lines
      suggestions:{flags figure:string value:integer}[]
      message owner skip_until reason price error:string?}[]
    warnings:string[])";
  return schema::document(
      "gpuplan check --format json", kKeys,
      {{"figures", figures}, {"lines", "{at what:string from to:string? effect:integer? with_previous:boolean}[]"}});
}

}  // namespace gpuplan
