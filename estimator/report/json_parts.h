// Building blocks of the JSON writers: values, the text of a document, and its JSON Schema. Only for the writers: this
// and gpu_json.h are the only headers that know JSON.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpuplan {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
/// Null where there is no text.
inline Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
/// {"schema", "tool"}: how a document of this schema begins.
Json document_of(std::string_view schema, std::string_view version);
/// Two spaces of indent and a final newline. A name may hold bytes that are not UTF-8; JSON cannot, and a report must
/// not fail over them: they are replaced.
std::string json_text(const Json& json);

namespace schema {

inline constexpr const char* kDialect = "https://json-schema.org/draft/2020-12/schema";

/// Types by their names.
using Types = std::initializer_list<std::pair<std::string_view, std::string_view>>;
/// The schema of an object from its keys: `name file:string parameters:integer gpu:string?`, several keys before one
/// type. A type is string, integer, number or boolean, words such as `train|infer`, a constant such as
/// `=gpuplan.fit/1`, an object's keys in braces, or $ and a name out of `types`; behind it stand [] for a list of it,
/// {} for an object of such values and ? where it may be null. Every key is always there, but those with a ? before the
/// colon; more may be added, so unknown ones are allowed.
Json object(std::string_view keys, Types types = {});
/// The text of a whole schema, of an object with these keys.
std::string document(const char* title, std::string_view keys, Types types = {});

}  // namespace schema
}  // namespace gpuplan
