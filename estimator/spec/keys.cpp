#include "estimator/spec/keys.h"

#include <algorithm>
#include <vector>

#include "estimator/base/list_text.h"
#include "estimator/spec/cursor.h"
#include "estimator/spec/limits.h"

namespace gpuplan {
namespace {

void expect_name_length(const YamlNode& node) {
  if (node.text.size() > kMaxNameBytes)
    throw Error("a name of more than " + std::to_string(kMaxNameBytes) + " characters").at(node.mark);
}

}  // namespace

void expect_map(const YamlNode& node, std::string_view what) {
  if (node.kind != YamlNode::Kind::map)
    throw Error(std::string(what) + " must be a map, not " + describe(node)).at(node.mark).label("expected key: value");
}

void expect_list(const YamlNode& node, std::string_view what) {
  if (node.kind != YamlNode::Kind::list)
    throw Error(std::string(what) + " must be a list, not " + describe(node)).at(node.mark).label("expected a list");
}

void refuse_key(const YamlNode& key, std::string_view what, std::initializer_list<std::string_view> keys) {
  const std::vector<std::string> known(keys.begin(), keys.end());
  Error error("unknown key \"" + key.text + "\" in " + std::string(what) + did_you_mean(key.text, known));
  error.at(key.mark);
  throw error.help(std::string(what) + " has the keys " + joined(known));
}

void expect_keys(const YamlNode& map, std::string_view what, std::initializer_list<std::string_view> keys) {
  for (std::size_t i = 0; i < map.children.size(); i += 2)
    if (std::find(keys.begin(), keys.end(), map.children[i]->text) == keys.end())
      refuse_key(*map.children[i], what, keys);
}

void require_keys(const YamlNode& map, std::string_view what, std::initializer_list<std::string_view> keys) {
  std::string missing;
  for (const std::string_view key : keys)
    if (map.find(key) == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(key) + ":";
  if (!missing.empty()) throw Error(std::string(what) + " needs " + missing).at(map.mark);
}

const YamlNode& require(const YamlNode& map, std::string_view what, std::string_view key) {
  require_keys(map, what, {key});
  return *map.find(key);
}

std::string read_identifier(const YamlNode& node, std::string_view what) {
  if (node.kind != YamlNode::Kind::scalar)
    throw Error(std::string(what) + " must be a name, not " + describe(node)).at(node.mark);
  expect_name_length(node);
  if (!is_identifier(node.text))
    throw Error(std::string(what) + " is a name, not " + describe(node))
        .at(node.mark)
        .label("letters, digits and underscores");
  return node.text;
}

bool is_module_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameBytes) return false;
  char previous = '.';
  for (const char c : text) {
    if (!is_word(c) && (c != '-' || previous == '.') && (c != '.' || previous == '.')) return false;
    previous = c;
  }
  return previous != '.';
}

std::string read_module_name(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::scalar)
    throw Error("a layer's name must be text, not " + describe(node)).at(node.mark);
  expect_name_length(node);
  if (!is_module_name(node.text)) {
    Error error(describe(node) + " cannot be a layer's name");
    error.at(node.mark).label("letters, digits, underscores and inner hyphens, parts joined by dots");
    if (node.text.find('(') != std::string::npos)
      error.help(node.in_flow ? "inside { } and [ ] a comma ends the text: quote the call, or write one layer per line"
                              : "a keyword argument is written keyword=value, without a colon");
    throw error;
  }
  if (node.text == "input" || node.text == "inputs" || node.text.starts_with("input."))
    throw Error("a layer cannot be named \"" + node.text + "\"")
        .at(node.mark)
        .label("from: input is what the block was given");
  return node.text;
}

}  // namespace gpuplan
