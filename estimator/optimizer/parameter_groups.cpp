#include "estimator/optimizer/parameter_groups.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

// Trainer.get_decay_parameter_names(): a group of parameters that weight decay applies to, and one of the others.
bool decays(const Graph& graph, const ParameterTensor& p) {
  if (graph.layers[index(p.layer)].type == "LayerNorm") return false;
  std::string path = path_of(graph, p);
  std::ranges::transform(path, path.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string dotted = "." + path + ".";
  return std::ranges::none_of(std::array{"bias", "layernorm", "rmsnorm"},
                              [&](const char* word) { return path.find(word) != std::string::npos; }) &&
         dotted.find(".norm.") == std::string::npos && dotted.find("_norm.") == std::string::npos;
}

}  // namespace

std::string path_of(const Graph& graph, const ParameterTensor& p) {
  std::string path = graph.layers[index(p.layer)].name;
  if (!p.name.empty()) path += (path.empty() ? "" : ".") + std::string(p.name);
  return path;
}

std::vector<Parameters> parameters_of(const Graph& graph, const Schedule& schedule, Like like) {
  const bool two = like == Like::trainer;
  std::vector<Parameters> groups(two ? 2 : 1);
  const auto group_of = [&](std::size_t i) -> Parameters& {
    return groups[two && !decays(graph, graph.parameters[i]) ? 1 : 0];
  };
  const auto parameter = [&](std::int64_t i) {
    const ParameterTensor& p = graph.parameters[index(i)];
    const Tensor& t = graph.tensor(p.tensor);
    const bool embeds = graph.layers[index(p.layer)].type.ends_with("Embedding");  // and its subclasses
    return OptimizerParameter{t.shape.elements(), t.dtype, p.partial_elements, like == Like::trainer && embeds};
  };
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    if (graph.parameters[i].trainable) group_of(i).trained.push_back(parameter(static_cast<std::int64_t>(i)));
  for (const std::int32_t i : schedule.with_gradient) group_of(index(i)).stepped.push_back(parameter(i));
  return groups;
}

}  // namespace gpuplan
