#include "tools/importers/onnx/names.h"

#include <algorithm>
#include <array>

#include "estimator/spec/limits.h"

namespace gpuplan::onnx_import {
namespace {

constexpr std::size_t kLongestWish = kMaxNameBytes - 8;  // room for a number

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

std::string lower(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

}  // namespace

std::string as_module_name(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_word(c) || (c == '.' && !out.empty() && out.back() != '.'))
      out += c;
    else if (c != '.' && !out.empty() && out.back() != '_')
      out += '_';
  }
  if (out.size() > kLongestWish) out = out.substr(out.size() - kLongestWish);
  while (!out.empty() && (out.back() == '.' || out.back() == '_')) out.pop_back();
  const std::size_t first = out.find_first_not_of('.');
  return first == std::string::npos ? "" : out.substr(first);
}

std::string module_of_weight(std::string_view weight) {
  if (is_generated(weight)) return "";
  const std::size_t dot = weight.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? weight : weight.substr(dot + 1);
  if (last == "weight" || last == "bias")
    return dot == std::string_view::npos ? "" : as_module_name(weight.substr(0, dot));
  for (const std::string_view ending : {"_weight", "_bias"})
    if (last.ends_with(ending)) return as_module_name(weight.substr(0, weight.size() - ending.size()));
  return as_module_name(weight);
}

std::string module_of_node(const Node& of) {
  if (!of.module.empty()) return as_module_name(of.module);
  const std::string_view node = of.name;
  if (!node.starts_with("/")) return "";
  std::string path;
  std::string last;
  for (std::size_t at = 1; at < node.size();) {
    const std::size_t end = node.find('/', at);
    if (end == std::string_view::npos) break;  // what is behind the last slash is the operator
    const std::string part(node.substr(at, end - at));
    at = end + 1;
    // A child of a container is written with the container's name before it.
    if (!last.empty() && part.starts_with(last + "."))
      path.replace(path.size() - last.size(), last.size(), part);
    else
      path += (path.empty() ? "" : ".") + part;
    last = part;
  }
  return as_module_name(path);
}

Modules::Modules(const Graph& graph) {
  for (const Node& n : graph.nodes) {
    if (n.gone) continue;
    const std::string module = module_of_node(n);
    ++nodes_[module];
    for (std::size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1))
      with_children_.insert(module.substr(0, dot));
  }
}

std::string Modules::name_of(const Graph& graph, const Node& node) const {
  const std::string module = module_of_node(node);
  const std::string op = lower(node.op);
  if (!module.empty()) {
    const auto nodes = nodes_.find(module);
    const bool alone = nodes != nodes_.end() && nodes->second == 1 && !with_children_.contains(module);
    const std::size_t dot = module.rfind('.');
    const std::string own = dot == std::string::npos ? module : module.substr(dot + 1);
    return alone || own == op ? module : module + "." + op;
  }
  if (!node.outputs.empty() && node.outputs.front() != kNone) {
    const std::string& result = graph.value(node.outputs.front()).name;
    if (!is_generated(result) && !as_module_name(result).empty()) return as_module_name(result);
  }
  return as_module_name(op).empty() ? "layer" : as_module_name(op);
}

bool is_number(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == '_'; });
}

bool is_entry_word(std::string_view name) {
  constexpr std::array<std::string_view, 20> kWords = {
      "name",     "op",       "block", "repeat", "with", "first",  "last",       "loop", "order", "layers",
      "residual", "parallel", "if",    "from",   "tie",  "frozen", "checkpoint", "keep", "when",  "autocast"};
  return std::find(kWords.begin(), kWords.end(), name) != kWords.end();
}

std::string Names::take(std::string_view wish) {
  std::string base = as_module_name(wish);
  if (base.empty()) base = "layer";
  if (base.starts_with("input.")) base = "input_" + base.substr(6);
  std::string name = base;
  int& last = last_of_[base];
  while (!taken_.insert(name).second) name = base + "_" + std::to_string(++last);
  return name;
}

void Names::reserve_parts(const std::string& name, std::size_t parts) {
  for (std::size_t i = 0; i < parts; ++i) taken_.insert(name + "." + std::to_string(i));
}

}  // namespace gpuplan::onnx_import
