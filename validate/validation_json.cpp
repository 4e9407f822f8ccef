#include <nlohmann/json.hpp>

#include "validate/validation.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json ran_out_json(const std::optional<RanOut>& out) {
  if (!out) return nullptr;
  const WithinMemory& m = out->measured;
  return {{"wanted_bytes", m.tried_bytes},
          {"allocated_bytes", m.allocated_bytes},
          {"reserved_bytes", m.reserved_bytes},
          {"step", m.step},
          {"phase", name_of(m.phase)},
          {"op", m.op},
          {"layer", m.layer},
          {"predicted", out->predicted}};
}

Json rows_json(const Validation& v) {
  Json rows = Json::array();
  for (const ValidationRow& r : v.rows)
    rows.push_back({{"name", r.name},
                    {"predicted_bytes", r.predicted_bytes},
                    {"measured_bytes", r.measured_bytes},
                    {"error_bytes", r.error_bytes()},
                    {"error", r.error()}});
  return rows;
}

Json kind(std::string_view name) { return {{"type", name}}; }
Json list_of(Json item) { return {{"type", "array"}, {"items", std::move(item)}}; }
Json object(Json properties) {
  Json required = Json::array();
  for (const auto& [name, unused] : properties.items()) required.push_back(name);
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}
Json or_null(Json schema) { return {{"anyOf", Json::array({std::move(schema), kind("null")})}}; }

}  // namespace

std::string validation_json(const Validation& v, double tolerance, std::string_view version) {
  Json json;
  json["schema"] = "gpuplan.validate/1";
  json["tool"] = {{"name", "gpuplan"}, {"version", version}};
  json["model"] = v.plan.model.name;
  json["batch"] = v.plan.run.batch;
  json["device"] = {{"name", v.device.name}, {"versions", v.device.versions}, {"computes", v.computes}};
  json["tolerance"] = tolerance;
  json["holds"] = v.holds(tolerance);
  json["rows"] = rows_json(v);
  json["device_bytes"] = {{"before", v.before_bytes},
                          {"context_predicted", v.plan.peak.context_bytes},
                          {"unaccounted", v.unaccounted_bytes}};
  json["peak"] = {{"predicted", v.peak_predicted}, {"measured", v.peak_measured}};
  json["losses"] = v.computes ? Json(v.losses) : Json(nullptr);
  json["step_milliseconds"] = v.computes ? Json(v.step_milliseconds) : Json(nullptr);
  json["values_equal"] = v.values_equal ? Json(*v.values_equal) : Json(nullptr);
  json["out_of_memory"] = ran_out_json(v.ran_out);
  return json.dump(2) + "\n";
}

std::string validation_json_schema() {
  const Json text = kind("string"), integer = kind("integer"), number = kind("number"), truth = kind("boolean");
  const Json row = object({{"name", text},
                           {"predicted_bytes", integer},
                           {"measured_bytes", integer},
                           {"error_bytes", integer},
                           {"error", number}});
  const Json out_of_memory = object({{"wanted_bytes", integer},
                                     {"allocated_bytes", integer},
                                     {"reserved_bytes", integer},
                                     {"step", integer},
                                     {"phase", text},
                                     {"op", text},
                                     {"layer", text},
                                     {"predicted", truth}});
  Json schema =
      object({{"schema", {{"const", "gpuplan.validate/1"}}},
              {"tool", object({{"name", text}, {"version", text}})},
              {"model", text},
              {"batch", integer},
              {"device", object({{"name", text}, {"versions", text}, {"computes", truth}})},
              {"tolerance", number},
              {"holds", truth},
              {"rows", list_of(row)},
              {"device_bytes", object({{"before", integer}, {"context_predicted", integer}, {"unaccounted", integer}})},
              {"peak", object({{"predicted", text}, {"measured", text}})},
              {"losses", or_null(list_of(number))},
              {"step_milliseconds", or_null(list_of(number))},
              {"values_equal", or_null(truth)},
              {"out_of_memory", or_null(out_of_memory)}});
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  return schema.dump(2) + "\n";
}

}  // namespace gpuplan
