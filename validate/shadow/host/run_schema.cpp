#include <nlohmann/json.hpp>

#include "validate/shadow/host/run_report.h"

namespace gpuplan::shadow {
namespace {

using Json = nlohmann::ordered_json;

const Json kInteger = {{"type", "integer"}};
const Json kText = {{"type", "string"}};

Json or_null(Json type) {
  type["type"] = Json::array({type.at("type"), "null"});
  return type;
}
Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

// Every key is always there; more may be added, so unknown ones are allowed.
Json object(Json properties) {
  Json required = Json::array();
  for (const auto& [key, value] : properties.items()) required.push_back(key);
  return {{"type", "object"}, {"required", std::move(required)}, {"properties", std::move(properties)}};
}

Json figures() {
  const Json peak = object({{"allocated_bytes", kInteger},
                            {"requested_bytes", kInteger},
                            {"reserved_bytes", kInteger},
                            {"device_bytes", kInteger},
                            {"context_bytes", kInteger},
                            {"when", or_null(kText)}});
  const Json step = object({{"step", kInteger},
                            {"allocated_bytes", kInteger},
                            {"requested_bytes", kInteger},
                            {"reserved_bytes", kInteger},
                            {"kernels", kInteger}});
  const Json line = object({{"file", kText},
                            {"line", kInteger},
                            {"function", kText},
                            {"code", kText},
                            {"bytes", kInteger},
                            {"blocks", kInteger}});
  const Json category = object({{"category", kText}, {"bytes", kInteger}});
  return {{"peak", peak},
          {"segments", kInteger},
          {"retries", kInteger},
          {"kernels", kInteger},
          {"allocations", kInteger},
          {"steps", list_of(step)},
          {"alive", object({{"categories", list_of(category)}, {"lines", list_of(line)}})}};
}

Json with(Json properties, const Json& more) {
  for (const auto& [key, value] : more.items()) properties[key] = value;
  return properties;
}

Json top_level() {
  const Json boolean = {{"type", "boolean"}};
  const Json out_of_memory = object({{"wanted_bytes", kInteger},
                                     {"free_bytes", kInteger},
                                     {"allocated_bytes", kInteger},
                                     {"reserved_bytes", kInteger},
                                     {"device", kInteger},
                                     {"rank", or_null(kInteger)},
                                     {"message", or_null(kText)}});
  const Json fit = object({{"gpu", kText}, {"title", kText}, {"usable_bytes", kInteger}, {"fits", boolean}});
  const Json rank = object(with({{"rank", or_null(kInteger)}, {"process", kInteger}, {"device", kInteger}}, figures()));
  const Json start = {{"schema", {{"const", "gpuplan.shadow/1"}}},
                      {"tool", object({{"name", kText}, {"version", kText}})},
                      {"gpu", kText},
                      {"gpu_title", kText},
                      {"capacity_bytes", kInteger},
                      {"gpus", kInteger},
                      {"world", or_null(kInteger)},
                      {"rank", or_null(kInteger)},
                      {"command", list_of(kText)},
                      {"exit_code", kInteger},
                      {"gpuplan_exit_code", kInteger},
                      {"end", or_null(kText)},
                      {"out_of_memory", or_null(out_of_memory)},
                      {"max_peak_bytes", or_null(kInteger)},
                      {"over_max_peak", boolean}};
  return with(
      with(start, figures()),
      {{"fits", list_of(fit)},
       {"unknown", list_of(kText)},
       {"problems", list_of(object({{"code", kInteger}, {"text", kText}}))},
       {"ranks", list_of(rank)},
       {"versions", object({{"torch", or_null(kText)}, {"cuda", or_null(kText)}, {"python", or_null(kText)}})}});
}

}  // namespace

std::string run_json_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"$id", "gpuplan.shadow/1"},
                 {"title", "gpuplan shadow --format json"},
                 {"description",
                  "Fields are added, never renamed. Counts are integers with the unit in the key. The "
                  "figures at the top are those of the fullest of `ranks`."}};
  schema.update(object(top_level()));
  return schema.dump(2) + "\n";
}

}  // namespace gpuplan::shadow
