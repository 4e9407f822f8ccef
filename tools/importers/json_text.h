// JSON that remembers where every value stands, so that an error can point at it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

struct JsonMember;

/// A value of RFC 8259. Numbers stay as written: a config.json has integers that no double holds.
struct JsonValue {
  enum class Kind : unsigned char { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  std::string text;  // of a string, unescaped; of a number, as written
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;  // in order; no key stands twice
  SourceMark mark;                  // the first line of the value

  /// The value of a key of an object, or nullptr.
  const JsonValue* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  SourceMark mark;  // of the key
  JsonValue value;
};

/// Throws Error with the place for what is not JSON, a key that stands twice, or more than 64 levels. As Python's json,
/// which writes them, it takes NaN, Infinity and -Infinity for numbers. The marks point into `source`.
JsonValue parse_json(const Source& source);

/// "a string", "a number", ...: what a value is, for messages.
std::string_view describe(JsonValue::Kind kind);

}  // namespace gpuplan
