#include "tools/options/accelerate_values.h"

#include <utility>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

std::string text_of(const YamlNode& node, std::string_view key) {
  if (node.kind != YamlNode::Kind::scalar)
    throw Error(std::string(key) + " must be text, not " + describe(node)).at(node.mark);
  return node.text;
}

}  // namespace

std::string text_at(const YamlNode& map, std::string_view key, std::string otherwise) {
  const YamlNode* const node = map.find(key);
  return node == nullptr || node->kind == YamlNode::Kind::null ? std::move(otherwise) : text_of(*node, key);
}

bool flag_at(const YamlNode& map, std::string_view key, bool otherwise) {
  const std::string text = text_at(map, key);
  if (text.empty()) return otherwise;
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  throw Error(std::string(key) + " is true or false, not " + text).at(map.find(key)->mark);
}

void refuse(const YamlNode& map, std::string_view key, std::string message, std::string help) {
  Error error(std::move(message));
  error.at(map.find(key)->mark).help(std::move(help));
  throw error;
}

}  // namespace gpuplan
