#include "estimator/graph/parameter_order.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace gpuplan {
namespace {

// The modules that have parameters, as a tree; children in the order of their first parameter.
class ModuleTree {
 public:
  void add(std::string_view module, std::size_t parameter) { modules_[find(module)].own.push_back(parameter); }

  std::vector<std::size_t> parameters() const {
    std::vector<std::size_t> order;
    std::vector<std::size_t> waiting{0};
    while (!waiting.empty()) {
      const Module& m = modules_[waiting.back()];
      waiting.pop_back();
      order.insert(order.end(), m.own.begin(), m.own.end());
      waiting.insert(waiting.end(), m.children.rbegin(), m.children.rend());
    }
    return order;
  }

 private:
  struct Module {
    std::vector<std::size_t> own, children;
  };

  std::size_t find(std::string_view path) {
    std::size_t at = 0;
    for (std::size_t end = 0; end < path.size();) {
      end = std::min(path.find('.', end + 1), path.size());
      const auto [it, fresh] = by_path_.try_emplace(path.substr(0, end), modules_.size());
      if (fresh) {
        modules_[at].children.push_back(it->second);
        modules_.emplace_back();
      }
      at = it->second;
    }
    return at;
  }

  std::vector<Module> modules_ = std::vector<Module>(1);
  std::unordered_map<std::string_view, std::size_t> by_path_;
};

}  // namespace

std::vector<ParameterTensor> in_module_order(std::vector<ParameterTensor> parameters, std::span<const Layer> layers) {
  const auto layer_of = [&](const ParameterTensor& p) -> std::string_view {
    return layers[static_cast<std::size_t>(p.layer)].name;
  };
  // A Parameter entry is called as its layer; it belongs to the module that it is written in.
  const auto is_entry = [](const ParameterTensor& p) { return p.name.empty(); };
  if (std::ranges::none_of(parameters, is_entry)) return parameters;
  ModuleTree tree;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string_view layer = layer_of(parameters[i]);
    const std::size_t dot = layer.rfind('.');
    tree.add(!is_entry(parameters[i]) ? layer : layer.substr(0, dot == std::string_view::npos ? 0 : dot), i);
  }
  std::vector<ParameterTensor> ordered;
  ordered.reserve(parameters.size());
  for (const std::size_t i : tree.parameters()) ordered.push_back(std::move(parameters[i]));
  return ordered;
}

}  // namespace gpuplan
