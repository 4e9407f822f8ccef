// Reading a map of fixed keys strictly.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "estimator/spec/yaml.h"

namespace gpuplan {

/// Throws Error unless `node` is a map; `what` names it for messages ("a residual").
void expect_map(const YamlNode& node, std::string_view what);
void expect_list(const YamlNode& node, std::string_view what);

/// Throws Error, with the nearest spelling, for a key that is not among `keys`.
void expect_keys(const YamlNode& map, std::string_view what, std::initializer_list<std::string_view> keys);
[[noreturn]] void refuse_key(const YamlNode& key, std::string_view what, std::initializer_list<std::string_view> keys);

/// Throws Error that names every one of `keys` that the map has not.
void require_keys(const YamlNode& map, std::string_view what, std::initializer_list<std::string_view> keys);
/// The value of `key`. Throws Error when the map has none.
const YamlNode& require(const YamlNode& map, std::string_view what, std::string_view key);

/// Text of a scalar that names something: letters, digits and underscores, not beginning with a digit.
std::string read_identifier(const YamlNode& node, std::string_view what);
/// A module's name: parts of letters, digits and underscores, joined by dots.
std::string read_module_name(const YamlNode& node);
/// Whether `text` could be one, by spelling and length.
bool is_module_name(std::string_view text);

}  // namespace gpuplan
