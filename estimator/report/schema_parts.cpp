#include "estimator/report/schema_parts.h"

#include <utility>

namespace gpuplan::schema {

Json type(const char* name) { return {{"type", name}}; }

Json or_null(Json of) {
  of["type"] = Json::array({of.at("type"), "null"});
  return of;
}

Json one_of(std::initializer_list<const char*> words) { return {{"enum", words}}; }

Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json object(Json properties) {
  Json required = Json::array();
  for (const auto& [key, value] : properties.items()) required.push_back(key);
  return {{"type", "object"}, {"required", std::move(required)}, {"properties", std::move(properties)}};
}

Json with(Json properties, const Json& more) {
  for (const auto& [key, value] : more.items()) properties[key] = value;
  return properties;
}

Json integers(std::initializer_list<const char*> keys) {
  Json properties = Json::object();
  for (const char* key : keys) properties[key] = type("integer");
  return properties;
}

std::string document(const char* title, Json properties) {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  schema.update(object(std::move(properties)));
  return schema.dump(2) + "\n";
}

}  // namespace gpuplan::schema
