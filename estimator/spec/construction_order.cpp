#include "estimator/spec/construction_order.h"

#include <algorithm>

#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

// The names written in a list; those within unnamed residuals and parallels belong to it.
void collect(const ListSyntax& list, std::vector<std::string>& out) {
  for (const EntrySyntax& entry : list.entries) {
    if (!entry.name.empty()) {
      out.push_back(entry.name);
    } else if (const auto* residual = std::get_if<ResidualSyntax>(&entry.what)) {
      collect(residual->body, out);
      collect(residual->shortcut, out);
    } else if (const auto* parallel = std::get_if<ParallelSyntax>(&entry.what)) {
      for (const ParallelSyntax::Branch& branch : parallel->branches)
        branch.name.empty() ? collect(branch.layers, out) : out.push_back(branch.name);
    }
  }
}

bool begins(const std::string& path, const std::string& module) {
  return path == module || (path.starts_with(module) && path[module.size()] == '.');
}

std::vector<std::string> read_names(const YamlNode& node, const char* key, const std::vector<std::string>& known) {
  expect_list(node, key);
  std::vector<std::string> order;
  for (const YamlNode* item : node.children) {
    std::string name = read_module_name(*item);
    if (std::ranges::find(order, name) != order.end())
      throw Error("\"" + name + "\" is named twice").at(item->mark).label("an entry is constructed once");
    if (std::ranges::none_of(known, [&](const std::string& path) { return begins(path, name); }))
      throw Error("there is no entry \"" + name + "\" here" + did_you_mean(name, known)).at(item->mark);
    order.push_back(std::move(name));
  }
  return order;
}

}  // namespace

EntryOrder read_order(const YamlNode& node, const ListSyntax& layers) {
  std::vector<std::string> known;
  collect(layers, known);
  if (node.kind != YamlNode::Kind::map) {
    const std::vector<std::string> names = read_names(node, "order", known);
    return {names, names};
  }
  expect_keys(node, "order", {"made", "registered"});
  EntryOrder order;
  if (const YamlNode* made = node.find("made")) order.made = read_names(*made, "made", known);
  if (const YamlNode* registered = node.find("registered"))
    order.registered = read_names(*registered, "registered", known);
  return order;
}

}  // namespace gpuplan
