#include "estimator/graph/graph.h"

#include "estimator/error.h"

namespace gpuplan {
namespace {

// A hundred a layer at a million layers. Blocks that hand on all their inputs several times over grow without bound.
constexpr std::size_t kMaxOperands = 100'000'000;

}  // namespace

std::string_view name_of(Category category) {
  switch (category) {
    case Category::parameters: return "parameters";
    case Category::buffers: return "buffers";
    case Category::gradients: return "gradients";
    case Category::optimizer_state: return "optimizer_state";
    case Category::inputs: return "inputs";
    case Category::activations: return "activations";
    case Category::activation_gradients: return "activation_gradients";
    case Category::scratch: return "scratch";
  }
  return "?";
}

Range Graph::append_operands(std::span<const std::int32_t> ids) {
  if (ids.size() > kMaxOperands - operands.size()) throw Error("the model has too many operands");
  const auto begin = static_cast<std::int32_t>(operands.size());
  operands.insert(operands.end(), ids.begin(), ids.end());
  return {begin, static_cast<std::int32_t>(operands.size())};
}

}  // namespace gpuplan
