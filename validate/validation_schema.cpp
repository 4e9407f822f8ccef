// The JSON Schema of validation_json().
#include <nlohmann/json.hpp>

#include "validate/validation.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json kind(std::string_view name) { return {{"type", name}}; }
Json kind_or_null(std::string_view name) { return {{"type", Json::array({name, "null"})}}; }
Json list_of(Json item) { return {{"type", "array"}, {"items", std::move(item)}}; }
// Every key is always there; more may be added, so unknown ones are allowed.
Json object(Json properties) {
  Json required = Json::array();
  for (const auto& [name, unused] : properties.items()) required.push_back(name);
  return {{"type", "object"}, {"required", std::move(required)}, {"properties", std::move(properties)}};
}
Json object_or_null(Json properties) {
  Json schema = object(std::move(properties));
  schema["type"] = Json::array({"object", "null"});
  return schema;
}

// Several properties of one type.
Json all(std::string_view type, std::initializer_list<const char*> names) {
  Json properties = Json::object();
  for (const char* name : names) properties[name] = kind(type);
  return properties;
}
Json with(Json properties, const Json& more) {
  properties.update(more);
  return properties;
}

Json memory_row() {
  return object(with(all("string", {"name"}), with(all("integer", {"predicted_bytes", "measured_bytes", "error_bytes"}),
                                                   {{"error", kind("number")}, {"counts", kind("boolean")}})));
}

Json phase() {
  const Json levels =
      object(all("integer", {"allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes"}));
  return object({{"phase", kind("string")},
                 {"predicted", levels},
                 {"measured", levels},
                 {"predicted_device_bytes", kind("integer")},
                 {"device_bytes", kind("integer")},
                 {"process_bytes", kind_or_null("integer")}});
}

Json before() {
  return object(with(all("integer", {"device_bytes", "context_bytes", "library_bytes", "context_predicted_bytes"}),
                     {{"process_bytes", kind_or_null("integer")}, {"context_confidence", kind("string")}}));
}

Json time_row() {
  return object(with(all("string", {"name"}),
                     with(all("integer", {"operations", "flops", "bytes"}),
                          with(all("number", {"forward_ms", "backward_ms", "update_ms", "median_ms", "least_ms",
                                              "most_ms", "flops_per_second", "bytes_per_second", "roofline_ms"}),
                               {{"roofline", kind_or_null("number")}}))));
}

Json times() {
  const Json spread =
      object(with(all("number", {"median_ms", "least_ms", "most_ms"}), {{"all_ms", list_of(kind("number"))}}));
  Json peaks = Json::object();
  for (const char* name : {"bytes_per_second", "fp64_flops_per_second", "fp32_flops_per_second",
                           "tf32_flops_per_second", "half_flops_per_second"})
    peaks[name] = kind_or_null("number");
  const Json rows = list_of(time_row());
  return object_or_null({{"predicted_ms", kind_or_null("number")},
                         {"step", spread},
                         {"marked_step", spread},
                         {"warm_up_steps", kind("integer")},
                         {"samples_per_second", kind_or_null("number")},
                         {"roofline_ms", kind("number")},
                         {"roofline", kind_or_null("number")},
                         {"peaks", object(peaks)},
                         {"layers", rows},
                         {"classes", rows},
                         {"operations", rows}});
}

Json out_of_memory() {
  const Json place = with(all("integer", {"wanted_bytes", "allocated_bytes", "reserved_bytes", "step"}),
                          all("string", {"phase", "op", "layer"}));
  return object_or_null(
      {{"free_bytes", kind("integer")},
       {"needed_bytes", kind("integer")},
       {"measured", object(place)},
       {"predicted", object_or_null(place)},
       {"same", kind("boolean")},
       {"runs_instead", list_of(object(with(all("string", {"flags"}), all("integer", {"device_bytes", "retries"}))))}});
}

}  // namespace

std::string validation_json_schema() {
  Json losses = list_of(kind_or_null("number"));  // null: not a number
  losses["type"] = Json::array({"array", "null"});
  Json schema = object(
      {{"schema", {{"const", "gpuplan.validate/1"}}},
       {"tool", object(all("string", {"name", "version"}))},
       {"model", kind("string")},
       {"batch", kind("integer")},
       {"device", object({{"name", kind("string")}, {"versions", kind("string")}, {"computes", kind("boolean")}})},
       {"tolerance", kind("number")},
       {"holds", kind("boolean")},
       {"rows", list_of(memory_row())},
       {"phases", list_of(phase())},
       {"before", before()},
       {"unaccounted_bytes", kind("integer")},
       {"peak", object(all("string", {"predicted", "measured"}))},
       {"losses", losses},
       {"values_equal", kind_or_null("boolean")},
       {"values_not_compared", kind_or_null("string")},
       {"remarks", list_of(kind("string"))},
       {"times", times()},
       {"out_of_memory", out_of_memory()}});
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  return schema.dump(2) + "\n";
}

}  // namespace gpuplan
