#include "estimator/spec/work.h"

#include <algorithm>
#include <vector>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

std::vector<const Body*> bodies_of(const Node& node) {
  if (const auto* block = std::get_if<Block>(&node.what)) return {&block->body};
  if (const auto* repeat = std::get_if<Repeat>(&node.what)) return {&repeat->items};
  if (const auto* residual = std::get_if<Residual>(&node.what)) return {&residual->body, &residual->shortcut};
  std::vector<const Body*> bodies;
  if (const auto* parallel = std::get_if<Parallel>(&node.what))
    for (const Parallel::Branch& branch : parallel->branches) bodies.push_back(&branch.body);
  return bodies;
}

std::int64_t layers_of(const Node& node);

std::int64_t layers_of(const Body& body) {
  std::int64_t layers = 0;
  for (const Node& node : body) layers += layers_of(node);
  return layers;
}

std::int64_t layers_of(const Node& node) {
  std::int64_t layers = std::holds_alternative<LayerCall>(node.what) ? 1 : 0;
  for (const Body* body : bodies_of(node)) layers += layers_of(*body);
  return layers;
}

// The outermost repeat that has most of the layers, or the entry that has more of them than others.
const Node& largest_entry(const Body& body) {
  const Node& largest = *std::ranges::max_element(body, {}, [](const Node& node) { return layers_of(node); });
  if (std::holds_alternative<Repeat>(largest.what)) return largest;
  for (const Body* inner : bodies_of(largest))
    if (!inner->empty() && 2 * layers_of(*inner) > layers_of(body)) return largest_entry(*inner);
  return largest;
}

}  // namespace

std::int64_t layers_of(const Model& model) { return layers_of(model.layers) + layers_of(model.losses); }

std::int64_t planning_work(const Model& model, const RunConfig& run) {
  constexpr std::int64_t kReplays = 32;
  const std::int64_t layers = layers_of(model);
  return checked_add(layers, checked_mul(layers, run.micro_batches - 1) / kReplays);
}

Error too_much_work(const Model& model, const std::string& asked) {
  const Node& largest = largest_entry(model.layers);
  Error error("the model has " + std::to_string(layers_of(model)) + " layers, and " + asked +
              ": one command plans at most " + std::to_string(kMostLayersPlanned) + " in all");
  return error.at(largest.mark).label(std::to_string(layers_of(largest)) + " of them");
}

}  // namespace gpuplan
