#include "estimator/device/read_number.h"

#include <charconv>
#include <string>

namespace gpuplan {

std::optional<std::int64_t> decimal(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::int64_t whole_number_of(const YamlNode& node, std::string_view what, std::int64_t least, std::int64_t largest) {
  const auto value = node.kind == YamlNode::Kind::scalar && !node.quoted ? decimal(node.text) : std::nullopt;
  if (!value || *value < least || *value > largest) {
    throw Error(std::string(what) + " must be a whole number, not " + describe(node))
        .at(node.mark)
        .label("expected " + std::to_string(least) + " to " + std::to_string(largest));
  }
  return *value;
}

double positive_number_of(const YamlNode& node, std::string_view what) {
  constexpr double kLargest = 1e15;
  double value = 0;
  const char* const end = node.text.data() + node.text.size();
  const bool plain = node.kind == YamlNode::Kind::scalar && !node.quoted;
  const auto [rest, error] = std::from_chars(node.text.data(), end, value);
  if (!plain || error != std::errc{} || rest != end || !(value > 0 && value <= kLargest))
    throw Error(std::string(what) + " must be a number above 0, not " + describe(node)).at(node.mark);
  return value;
}

}  // namespace gpuplan
