// A JSON value against the JSON Schema of a report; the part of JSON Schema that our schemas use.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace gpuplan::tests {

/// Every key that the schema requires is there, and every key that is there is in the schema.
inline void check_against(const nlohmann::json& schema, const nlohmann::json& value, const std::string& path) {
  INFO(path);
  if (schema.contains("enum"))
    CHECK_NE(std::find(schema["enum"].begin(), schema["enum"].end(), value), schema["enum"].end());
  if (schema.contains("const")) CHECK_EQ(schema["const"], value);
  if (!schema.contains("type")) return;
  const nlohmann::json types = schema["type"].is_array() ? schema["type"] : nlohmann::json::array({schema["type"]});
  const std::string actual = value.is_number_integer() ? "integer" : value.type_name();
  CHECK_NE(std::find(types.begin(), types.end(), actual), types.end());
  if (value.is_array())
    for (const nlohmann::json& item : value) check_against(schema["items"], item, path + "[]");
  if (!value.is_object()) return;
  for (const nlohmann::json& key : schema["required"])
    CHECK_MESSAGE(value.contains(key.get<std::string>()), path << "." << key);
  for (const auto& entry : value.items()) {
    const std::string& key = entry.key();
    REQUIRE_MESSAGE(schema["properties"].contains(key), path << "." << key);
    check_against(schema["properties"][key], entry.value(), path + "." + key);
  }
}

}  // namespace gpuplan::tests
