#include "estimator/report/json_parts.h"

#include <algorithm>
#include <vector>

#include "estimator/base/list_text.h"

namespace gpuplan {

Json document_of(std::string_view schema, std::string_view version) {
  return {{"schema", schema}, {"tool", {{"name", "gpuplan"}, {"version", version}}}};
}

std::string json_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

namespace schema {
namespace {

class KeysReader {
 public:
  KeysReader(std::string_view keys, Types types) : left_(keys), types_(types) {}

  Json object() {
    Json required = Json::array(), properties = Json::object();
    std::vector<std::string> names;
    for (skip_blanks(); !left_.empty() && !take("}"); skip_blanks()) {
      names.emplace_back(word("?: \n"));
      const bool optional = take("?");
      if (!take(":")) continue;
      const Json schema = type();
      for (const std::string& name : std::exchange(names, {})) {
        properties[name] = schema;
        if (!optional) required.push_back(name);
      }
    }
    return {{"type", "object"}, {"required", std::move(required)}, {"properties", std::move(properties)}};
  }

 private:
  Json type() {
    constexpr const char* kEnds = "[{}? \n";
    Json schema = take("{")   ? object()
                  : take("=") ? Json{{"const", word(kEnds)}}
                  : take("$") ? KeysReader(named(word(kEnds)), types_).type()
                              : simple(word(kEnds));
    while (true) {
      if (take("[]"))
        schema = {{"type", "array"}, {"items", std::move(schema)}};
      else if (take("{}"))
        schema = {{"type", "object"}, {"additionalProperties", std::move(schema)}};
      else if (!take("?"))
        return schema;
      else if (schema.contains("enum"))
        schema["enum"].push_back(nullptr);
      else
        schema["type"] = Json::array({schema["type"], "null"});
    }
  }

  static Json simple(std::string_view text) {
    if (text == "string" || text == "integer" || text == "number" || text == "boolean") return {{"type", text}};
    Json words = Json::array();
    for (const std::string_view one : split(text, '|')) words.push_back(one);
    return {{"enum", std::move(words)}};
  }

  std::string_view named(std::string_view name) const {
    return std::ranges::find(types_, name, [](const auto& type) { return type.first; })->second;
  }
  bool take(std::string_view text) {
    const bool there = left_.starts_with(text);
    if (there) left_.remove_prefix(text.size());
    return there;
  }
  std::string_view word(const char* ends) {
    const std::string_view text = left_.substr(0, left_.find_first_of(ends));
    left_.remove_prefix(text.size());
    return text;
  }
  void skip_blanks() { left_.remove_prefix(std::min(left_.find_first_not_of(" \n"), left_.size())); }

  std::string_view left_;
  Types types_;
};

}  // namespace

Json object(std::string_view keys, Types types) { return KeysReader(keys, types).object(); }

std::string document(const char* title, std::string_view keys, Types types) {
  Json schema = {{"$schema", kDialect}, {"title", title}};
  schema.update(object(keys, types));
  return json_text(schema);
}

}  // namespace schema
}  // namespace gpuplan
