#include "estimator/report/diff_report.h"
#include "estimator/report/json_parts.h"

namespace gpuplan {

namespace {

Json side_json(const DiffSide& side) {
  return {{"name", side.name},
          {"commit", text_or_null(side.commit)},
          {"rule", text_or_null(side.rule)},
          {"file", text_or_null(side.file)},
          {"renamed", side.renamed},
          {"missing", !side.figures.has_value()}};
}

Json change_json(const Change& change) {
  return {{"base", change.base},
          {"now", change.now},
          {"delta", change.delta()},
          {"delta_per_mille", or_null(per_mille(change))}};
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
      return or_null(side.figures ? value_of(*side.figures, metric) : std::nullopt);
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
  Json json = document_of("gpuplan.diff/1", version);
  json["base"] = side_json(report.base);
  json["now"] = side_json(report.now);
  json["differs"] = report.differs();
  json["totals"] = totals_json(report);
  json["peak_bytes_by_category"] = rows_json(d.categories);
  json["peak_bytes_by_module"] = rows_json(d.modules);
  json["peak_bytes_by_phase"] = rows_json(d.phases);
  Json tensors = Json::array();
  for (const OneSided& t : d.tensors)
    tensors.push_back({{"tensor_bytes", t.bytes},
                       {"base", t.base},
                       {"now", t.now},
                       {"delta_bytes", t.delta_bytes()},
                       {"base_where", text_or_null(t.base_where)},
                       {"now_where", text_or_null(t.now_where)}});
  json["tensors_on_one_side"] = std::move(tensors);
  json["parameters_by_module"] = rows_json(d.module_parameters);
  json["flops_by_module"] = rows_json(d.module_flops);
  json["causes"] = causes_json(report);
  json["peak_bytes_by_cause"] = effects_json(report);
  json["run_changes"] = std::move(run);
  json["limits"] = std::move(limits);
  json["warnings"] = report.warnings;
  return json_text(json);
}

std::string diff_json_schema() {
  // Of peak_bytes_by_cause: causes by their numbers in "causes", from 0, each planned without the others; those of one
  // effect only together.
  constexpr std::string_view kKeys = R"(schema:=gpuplan.diff/1 tool:{name version:string}
    base now:{name:string commit rule file:string? renamed missing:boolean} differs:boolean
    totals:{metric:$metric unit:bytes|elements|FLOP|nanoseconds base now delta delta_per_mille:integer?}[]
    tensors_on_one_side:{tensor_bytes base now delta_bytes:integer base_where now_where:string?}[]
    peak_bytes_by_category peak_bytes_by_module peak_bytes_by_phase parameters_by_module
      flops_by_module:{name:string base now delta delta_per_mille:integer?}[]
    causes:{kind:changed|added|removed|moved what:string from to:string?
      at was_at:{file:string line column:integer}?}[]?
    peak_bytes_by_cause:{effects:{causes:integer[] delta:integer}[] together:integer}?
    run_changes:{name base now:string}[] limits:{limit:string metric:$metric exceeded:boolean}[] warnings:string[])";
  return schema::document("gpuplan.diff/1", kKeys, {{"metric", "peak|reserved|device|params|flop|seconds"}});
}

}  // namespace gpuplan
