// The orders of Module.parameters() and Module.to().
#pragma once

#include <span>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// The parameters and storages of one module, and the order that its children are constructed in.
struct ConstructionOrder {
  std::string path;  // of the module; empty: the model
  const std::vector<std::string>* children = nullptr;
  Range parameters;  // of Graph::parameters
};
/// Those of an `order:` that are entries of `body`. The others are containers of entries (nn.ModuleList), whose items
/// are constructed one by one before it: they order Module.parameters() only.
std::vector<std::string> constructed_entries(const std::vector<std::string>& order, const Body& body);
/// Sorts what was added to Graph::model_storage since `first`.
void order_storage(Graph& graph, std::size_t first, const ConstructionOrder& order);
/// Sorts Graph::parameters; inner modules before those around them.
void order_parameters(Graph& graph, const ConstructionOrder& order);

/// Parameters in the order that PyTorch lists them: what a module owns itself comes before its submodules
/// (torch/nn/modules/module.py, _named_members), wherever in the code it is read.
std::vector<ParameterTensor> in_module_order(std::vector<ParameterTensor> parameters, std::span<const Layer> layers);
/// Parameters and buffers in the order that Module.to() takes them in: submodules before what a module owns itself, of
/// which parameters come first (_apply).
std::vector<TensorId> in_applied_order(const Graph& graph);

}  // namespace gpuplan
