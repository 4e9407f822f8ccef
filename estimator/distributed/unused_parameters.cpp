#include "estimator/distributed/unused_parameters.h"

#include <algorithm>
#include <string>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

std::string name_of_parameter(const Graph& graph, const ParameterTensor& p) {
  if (p.layer == kNone) return std::string(p.name);
  const std::string& layer = graph.layers[static_cast<std::size_t>(p.layer)].name;
  return p.name.empty() ? layer : layer + "." + std::string(p.name);
}

}  // namespace

void refuse_unused_parameters(const Graph& graph, const Schedule& schedule, const Strategy& strategy) {
  if (strategy.find_unused_parameters) return;
  if (strategy.data != DataParallel::ddp && strategy.data != DataParallel::zero1) return;
  std::size_t unused = 0;
  std::string first;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    if (!graph.parameters[i].trainable || gradient_place(schedule, static_cast<std::int32_t>(i)) != kNone) continue;
    if (unused++ == 0) first = name_of_parameter(graph, graph.parameters[i]);
  }
  if (unused == 0) return;
  throw Error(
      (unused == 1 ? first + ", which is trained, gets no gradient"
                   : first + " and " + std::to_string(unused - 1) + " more trained parameters get no gradient") +
          ": DDP would raise an error in the second step",
      ErrorKind::usage)
      .help("--find-unused-parameters plans DDP's find_unused_parameters=True; frozen: true leaves a layer out");
}

std::int64_t unused_map_bytes(const Graph& graph) {
  return 4 * static_cast<std::int64_t>(std::ranges::count(graph.parameters, true, &ParameterTensor::trainable));
}

}  // namespace gpuplan
