#include "estimator/graph/graph.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

// Thirty a layer at a million layers. Blocks that hand on all their inputs several times over grow without bound.
constexpr std::size_t kMaxOperands = 30'000'000;

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
    case Category::kv_cache: return "kv_cache";
  }
  return "?";
}

// Per entry of the spec: what the layers of a transformer come to on average; a convolution's need about half.
void Graph::reserve(std::size_t layers_expected) {
  const std::size_t n = layers_expected + 8;
  buffers.reserve(4 * n);
  tensors.reserve(5 * n);
  operands.reserve(20 * n);
  forward_ops.reserve(5 * n / 2);
  backward_ops.reserve(4 * n);
  saved.reserve(3 * n);
  locals.reserve(17 * n / 2);
  edges.reserve(5 * n);
  nodes.reserve(4 * n);
  layers.reserve(n);
  parameters.reserve(3 * n / 2);
  model_storage.reserve(3 * n);
}

void Graph::require_operands(std::size_t more) const {
  if (more > kMaxOperands - operands.size()) throw Error("the model has too many operands");
}

bool is_constant(const Graph& graph, TensorId t) {
  const BufferId buffer = buffer_of(graph, t);
  const auto is_it = [&](const auto& converted) { return converted.second == buffer; };
  return graph.buffers[static_cast<std::size_t>(buffer)].category == Category::activations ||
         std::ranges::any_of(graph.converted_buffers, is_it);
}

Range Graph::append_operands(std::span<const std::int32_t> ids) {
  require_operands(ids.size());
  const auto begin = static_cast<std::int32_t>(operands.size());
  for (const std::int32_t id : ids) operands.push_back(id);  // one to three mostly
  return {begin, static_cast<std::int32_t>(operands.size())};
}

void Graph::append_attributes(Op& op, std::span<const AttributeValue> values) {
  for (const AttributeValue& a : values)
    if (!takes(op.kind, a.name))
      throw std::logic_error("an argument that " + std::string(name_of(op.kind)) + " has not");
  if (op.attributes.begin == op.attributes.end) op.attributes.begin = static_cast<std::int32_t>(attributes.size());
  attributes.insert(attributes.end(), values.begin(), values.end());
  op.attributes.end = static_cast<std::int32_t>(attributes.size());
}

}  // namespace gpuplan
