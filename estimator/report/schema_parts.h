// JSON Schemas of what the writers write, put together from parts. For the writers only: beside gpu_json.h
// no other header knows JSON.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace gpuplan::schema {

using Json = nlohmann::ordered_json;

/// "string", "integer", "number", "boolean".
Json type(const char* name);
/// What has a type, or null.
Json or_null(Json of);
inline Json nullable(const char* name) { return or_null(type(name)); }
Json one_of(std::initializer_list<const char*> words);
Json list_of(Json items);
/// Every key is always there; more may be added, so unknown ones are allowed.
Json object(Json properties);
/// The properties of both.
Json with(Json properties, const Json& more);
/// Integers by these keys: properties.
Json integers(std::initializer_list<const char*> keys);
/// A value: null where there is no text.
inline Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
/// The text of a whole schema, of an object with these properties.
std::string document(const char* title, Json properties);

}  // namespace gpuplan::schema
