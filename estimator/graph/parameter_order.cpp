#include "estimator/graph/parameter_order.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

namespace gpuplan {
namespace {

// The modules that have weights, as a tree; children in the order of their first weight.
class ModuleTree {
 public:
  void add(std::string_view module, std::size_t weight) { modules_[find(module)].own.push_back(weight); }

  /// A module's own before those of its children.
  std::vector<std::size_t> outer_first() const {
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

  /// And after them: backwards, those of a module's last child come after its own.
  std::vector<std::size_t> inner_first() const {
    std::vector<std::size_t> order;
    std::vector<std::size_t> waiting{0};
    while (!waiting.empty()) {
      const Module& m = modules_[waiting.back()];
      waiting.pop_back();
      order.insert(order.end(), m.own.rbegin(), m.own.rend());
      waiting.insert(waiting.end(), m.children.begin(), m.children.end());
    }
    std::ranges::reverse(order);
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

namespace {

// A Parameter or Buffer entry is called as its layer; it belongs to the module that it is written in.
std::string_view module_of(std::string_view weight, std::string_view layer) {
  if (!weight.empty()) return layer;
  const std::size_t dot = layer.rfind('.');
  return layer.substr(0, dot == std::string_view::npos ? 0 : dot);
}

// Where among its module's children something at `path` was constructed; after all that are named where it is not.
std::size_t rank_of(std::string_view path, const ConstructionOrder& order) {
  if (!order.path.empty()) path.remove_prefix(std::min(path.size(), order.path.size() + 1));
  const std::vector<std::string>& children = *order.children;
  for (std::size_t i = 0; i < children.size(); ++i)
    if (path.starts_with(children[i]) && (path.size() == children[i].size() || path[children[i].size()] == '.'))
      return i;
  return children.size();
}

template <class T, class PathOf>
void sort_by_rank(std::span<T> range, const ConstructionOrder& order, PathOf path_of) {
  std::vector<std::pair<std::size_t, T>> ranked;
  ranked.reserve(range.size());
  for (const T& item : range) ranked.emplace_back(rank_of(path_of(item), order), item);
  std::ranges::stable_sort(ranked, {}, [](const auto& r) { return r.first; });
  for (std::size_t i = 0; i < range.size(); ++i) range[i] = std::move(ranked[i].second);
}

// Entries within unnamed residuals and parallels belong to the list around them.
bool is_entry(const Body& body, const std::string& name) {
  return std::ranges::any_of(body, [&](const Node& node) {
    if (!node.name.empty()) return node.name == name;
    if (const auto* residual = std::get_if<Residual>(&node.what))
      return is_entry(residual->body, name) || is_entry(residual->shortcut, name);
    const auto* parallel = std::get_if<Parallel>(&node.what);
    return parallel != nullptr && std::ranges::any_of(parallel->branches, [&](const Parallel::Branch& branch) {
             return branch.name.empty() ? is_entry(branch.body, name) : branch.name == name;
           });
  });
}

}  // namespace

std::vector<std::string> constructed_entries(const std::vector<std::string>& order, const Body& body) {
  std::vector<std::string> entries;
  std::ranges::copy_if(order, std::back_inserter(entries),
                       [&](const std::string& name) { return is_entry(body, name); });
  return entries;
}

void order_storage(Graph& graph, std::size_t first, const ConstructionOrder& order) {
  sort_by_rank(std::span(graph.model_storage).subspan(first), order, [&](TensorId t) -> std::string_view {
    const LayerId layer = graph.buffers[static_cast<std::size_t>(graph.tensor(t).buffer)].layer;
    return graph.layers[static_cast<std::size_t>(layer)].name;
  });
}

void order_parameters(Graph& graph, const ConstructionOrder& order) {
  const auto begin = static_cast<std::size_t>(order.parameters.begin);
  const auto count = static_cast<std::size_t>(order.parameters.end) - begin;
  sort_by_rank(std::span(graph.parameters).subspan(begin, count), order, [&](const ParameterTensor& p) {
    return std::string_view(graph.layers[static_cast<std::size_t>(p.layer)].name);
  });
}

std::vector<ParameterTensor> in_module_order(std::vector<ParameterTensor> parameters, std::span<const Layer> layers) {
  if (std::ranges::none_of(parameters, [](const ParameterTensor& p) { return p.name.empty(); })) return parameters;
  ModuleTree tree;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    tree.add(module_of(parameters[i].name, layers[static_cast<std::size_t>(parameters[i].layer)].name), i);
  std::vector<ParameterTensor> ordered;
  ordered.reserve(parameters.size());
  for (const std::size_t i : tree.outer_first()) ordered.push_back(parameters[i]);
  return ordered;
}

std::vector<TensorId> in_applied_order(const Graph& graph) {
  ModuleTree tree;
  std::vector<TensorId> weights;
  const auto add = [&](const auto& weight) {
    tree.add(module_of(weight.name, graph.layers[static_cast<std::size_t>(weight.layer)].name), weights.size());
    weights.push_back(weight.tensor);
  };
  std::ranges::for_each(graph.parameters, add);
  std::ranges::for_each(graph.named_buffers, add);
  std::vector<TensorId> ordered;
  ordered.reserve(weights.size());
  for (const std::size_t i : tree.inner_first()) ordered.push_back(weights[i]);
  return ordered;
}

}  // namespace gpuplan
