// Values of a config of Accelerate, which are text: its questionnaire writes "true" and 'FULL_SHARD' alike. What is not
// understood throws Error at its place.
#pragma once

#include <string>
#include <string_view>

#include "estimator/spec/yaml.h"
#include "tools/options/words.h"

namespace gpuplan {

std::string text_at(const YamlNode& map, std::string_view key, std::string otherwise = "");
bool flag_at(const YamlNode& map, std::string_view key, bool otherwise);
/// Throws Error at the key's place.
[[noreturn]] void refuse(const YamlNode& map, std::string_view key, std::string message, std::string help);

template <class T>
T choose_at(const YamlNode& map, std::string_view key, const std::string& text, const Choices<T>& choices) {
  try {
    return choose<T>(key, text, choices);
  } catch (Error& error) {
    if (map.find(key) != nullptr) error.at(map.find(key)->mark);
    throw;
  }
}

}  // namespace gpuplan
