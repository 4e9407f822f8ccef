#include "tools/importers/config.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace gpuplan {

namespace {

std::string quoted(std::string_view key) { return "\"" + std::string(key) + "\""; }

bool is_false_or_zero(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::boolean: return !value.boolean;
    case JsonValue::Kind::number: return number_of(value) == 0;
    case JsonValue::Kind::array: return value.items.empty();
    case JsonValue::Kind::object: return value.members.empty();
    default: return false;
  }
}

}  // namespace

double number_of(const JsonValue& value) {
  double number = std::numeric_limits<double>::quiet_NaN();
  (void)std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
  return number;
}

Config::Config(const Source& source) : file_(source.name), root_(parse_json(source)) {
  if (root_.kind != JsonValue::Kind::object)
    throw Error("a config.json holds an object, not " + std::string(describe(root_.kind))).at(root_.mark);
}

const JsonValue* Config::written(std::string_view key) const {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return root_.find(key);
  const JsonValue* const within = root_.find(key.substr(0, dot));
  if (within == nullptr || within->kind == JsonValue::Kind::null) return nullptr;
  if (within->kind != JsonValue::Kind::object)
    throw Error(quoted(key.substr(0, dot)) + " must be an object, not " + std::string(describe(within->kind)))
        .at(within->mark);
  return within->find(key.substr(dot + 1));
}

const JsonValue* Config::find(std::string_view key) const {
  const JsonValue* const value = written(key);
  return value == nullptr || value->kind == JsonValue::Kind::null ? nullptr : value;
}

bool Config::has_null(std::string_view key) const {
  const JsonValue* const value = written(key);
  return value != nullptr && value->kind == JsonValue::Kind::null;
}

Error Config::wrong(std::string_view key, const std::string& message) const {
  Error error(message);
  const JsonValue* const value = written(key);
  return error.at(value == nullptr ? root_.mark : value->mark);
}

const JsonValue& Config::require(std::string_view key, JsonValue::Kind kind) const {
  const JsonValue* const value = find(key);
  if (value == nullptr) throw wrong(key, quoted(key) + " is missing").help("it determines the size of the model");
  if (value->kind != kind)
    throw wrong(key,
                quoted(key) + " is " + std::string(describe(kind)) + ", not " + std::string(describe(value->kind)));
  return *value;
}

std::int64_t Config::whole(std::string_view key, std::int64_t least) const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::string& text = require(key, JsonValue::Kind::number).text;
  std::int64_t size = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (problem == std::errc::invalid_argument || end != text.data() + text.size())
    throw wrong(key, quoted(key) + " must be a whole number, not " + text);
  if (problem != std::errc() || size < least || size > kMost)
    throw wrong(key, quoted(key) + " is out of range")
        .label("expected " + std::to_string(least) + " to " + std::to_string(kMost));
  return size;
}

std::int64_t Config::size(std::string_view key, std::optional<std::int64_t> otherwise) const {
  return otherwise && find(key) == nullptr ? *otherwise : whole(key, 1);
}

std::int64_t Config::count(std::string_view key, std::int64_t otherwise) const {
  return find(key) == nullptr ? otherwise : whole(key, 0);
}

std::string Config::share(std::string_view key, std::string_view otherwise) const {
  if (find(key) == nullptr) return std::string(otherwise);
  const JsonValue& value = require(key, JsonValue::Kind::number);
  const double share = number_of(value);
  if (!(share >= 0 && share < 1)) throw wrong(key, quoted(key) + " is out of range").label("expected 0 <= p < 1");
  return share == 0 ? "0.0" : value.text;
}

std::string Config::positive(std::string_view key, std::string_view otherwise) const {
  if (find(key) == nullptr) return std::string(otherwise);
  const JsonValue& value = require(key, JsonValue::Kind::number);
  const double number = number_of(value);
  if (!(number > 0 && std::isfinite(number)))
    throw wrong(key, quoted(key) + " is out of range").label("expected a number above 0");
  return value.text;
}

bool Config::flag(std::string_view key, bool otherwise) const {
  return find(key) == nullptr ? otherwise : require(key, JsonValue::Kind::boolean).boolean;
}

std::string Config::word(std::string_view key, std::string_view otherwise) const {
  return find(key) == nullptr ? std::string(otherwise) : require(key, JsonValue::Kind::string).text;
}

std::int64_t Config::labels() const {
  if (find("num_labels") != nullptr) return size("num_labels");
  if (find("id2label") == nullptr) return 2;
  const std::size_t count = require("id2label", JsonValue::Kind::object).members.size();
  if (count == 0) throw wrong("id2label", "\"id2label\" names no label");
  return static_cast<std::int64_t>(count);
}

std::string Config::architecture(std::string_view otherwise) const {
  if (find("architectures") == nullptr) return std::string(otherwise);
  const JsonValue& list = require("architectures", JsonValue::Kind::array);
  if (list.items.empty()) return std::string(otherwise);
  if (list.items[0].kind != JsonValue::Kind::string)
    throw wrong("architectures", "\"architectures\" is a list of names of classes");
  return list.items[0].text;
}

void Config::refuse(std::string_view key, const std::string& why, std::string_view harmless) const {
  const JsonValue* const value = find(key);
  if (value == nullptr || is_false_or_zero(*value)) return;
  if (!harmless.empty() && value->text == harmless) return;
  throw wrong(key, quoted(key) + " is not modelled: " + why);
}

}  // namespace gpuplan
