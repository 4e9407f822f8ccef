#include "estimator/distributed/fsdp_units.h"

#include <algorithm>
#include <unordered_map>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/flat_parameters.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"

namespace gpuplan {
namespace {

// What two paths begin with together: "layer1.0.conv1" and "layer1.0.bn1" are in layer1.0.
std::string common_path(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

struct Blocks {
  Range ops;  // of Graph::forward_ops, from the first to the last one
  std::vector<std::string> paths;
  std::vector<char> input_has_gradient;
  std::unordered_map<std::string, std::int32_t> of_layer;  // by the layer's path
};

// A weight that the code of a module reads itself is a layer that runs nothing: within the steps of a block, or at
// their edge and in its module.
void add_bare_weights(const Graph& graph, Blocks& blocks) {
  for (const Layer& layer : graph.layers) {
    if (layer.parameters == 0 || layer.ops.begin != layer.ops.end) continue;
    for (std::size_t b = 0; b < blocks.paths.size(); ++b) {
      const Range& ops = graph.wrapped[b].ops;
      const bool within = ops.begin < layer.ops.begin && layer.ops.begin < ops.end;
      const bool at_edge = layer.ops.begin == ops.begin || layer.ops.begin == ops.end;
      if (within || (at_edge && layer.name.starts_with(blocks.paths[b] + ".")))
        blocks.of_layer.emplace(layer.name, static_cast<std::int32_t>(b));
    }
  }
}

Blocks find_blocks(const Graph& graph) {
  Blocks blocks;
  for (const Checkpoint& part : graph.wrapped) {
    const auto block = static_cast<std::int32_t>(blocks.paths.size());
    if (block == 0) blocks.ops.begin = part.ops.begin;
    blocks.ops.end = part.ops.end;
    for (std::int32_t i = part.ops.begin; i < part.ops.end; ++i)
      if (const LayerId layer = graph.forward_ops[index(i)].layer; layer != kNone)
        blocks.of_layer.emplace(graph.layers[index(layer)].name, block);
    blocks.paths.push_back(path_of(graph, part));
    const auto given = graph.at(part.given);
    blocks.input_has_gradient.push_back(
        std::ranges::any_of(given, [&](TensorId t) { return graph.tensor(t).requires_grad; }) ? 1 : 0);
  }
  add_bare_weights(graph, blocks);
  return blocks;
}

bool is_tied(const Graph& graph, const ParameterTensor& p) {
  const Shape& shape = graph.tensor(p.tensor).shape;
  return std::ranges::find(graph.tied_shapes, shape) != graph.tied_shapes.end();
}

// Accelerate looks for the norm among the children of the model that it is given (_find_final_norm), which within
// peft's are none: the root has it then.
void leave_norm(const Graph& graph, std::vector<std::string>& tail) {
  if (std::ranges::none_of(graph.parameters, &ParameterTensor::adapter)) return;
  const ParameterTensor& last =
      *std::ranges::find(graph.parameters.rbegin(), graph.parameters.rend(), false, &ParameterTensor::adapter);
  const std::string& head = graph.layers[index(last.layer)].name;
  std::erase_if(tail, [&](const std::string& name) { return name != head && !name.starts_with(head + "."); });
}

// The module that has a weight: its layer, or the one whose code reads the weight itself.
std::string module_of(const Layer& layer) {
  return layer.ops.begin == layer.ops.end ? layer.name.substr(0, layer.name.rfind('.')) : layer.name;
}

// Accelerate's units beside the blocks (utils/fsdp_utils.py, fsdp2_prepare_model): the embedding before them, unless it
// is tied, and the norm and the head behind them.
void add_ends(const Graph& graph, bool of_accelerate, Blocks& blocks) {
  const ParameterTensor* embedding = nullptr;
  std::vector<std::string> tail;
  for (const ParameterTensor& p : graph.parameters) {
    const Layer& layer = graph.layers[index(p.layer)];
    if (blocks.of_layer.contains(layer.name)) continue;
    const auto elements = [&](const ParameterTensor& of) { return graph.tensor(of.tensor).shape.elements(); };
    if (layer.ops.begin >= blocks.ops.end)
      tail.push_back(module_of(layer));
    else if (layer.type == "Embedding" && (embedding == nullptr || elements(*embedding) < elements(p)))
      embedding = &p;
  }
  if (of_accelerate) leave_norm(graph, tail);
  const bool tied = embedding != nullptr && is_tied(graph, *embedding);
  if (embedding != nullptr && !tied) {
    for (auto& [name, block] : blocks.of_layer) ++block;
    blocks.paths.insert(blocks.paths.begin(), graph.layers[index(embedding->layer)].name);
    blocks.input_has_gradient.insert(blocks.input_has_gradient.begin(), 0);
    blocks.of_layer.emplace(blocks.paths.front(), 0);
  }
  if (tied) tail.push_back(graph.layers[index(embedding->layer)].name);
  if (tail.empty()) return;
  const auto last = static_cast<std::int32_t>(blocks.paths.size());
  blocks.paths.push_back(tail.front());
  blocks.input_has_gradient.push_back(tied ? 0 : 1);
  for (const std::string& name : tail)
    for (const Layer& layer : graph.layers)
      if (layer.name == name || layer.name.starts_with(name + ".")) blocks.of_layer.emplace(layer.name, last);
}

struct Units {
  std::vector<FsdpUnit> all;
  /// By the path of the layer, and by that of experts, which may be a layer's own; those of the root are not there.
  std::unordered_map<std::string, std::size_t> of_layer, of_experts;

  std::size_t place(const Layer& layer) const {
    const auto& places = layer.dispatched ? of_experts : of_layer;
    const auto found = places.find(layer.name);
    return found == places.end() ? 0 : found->second;
  }
};

// The root, then the blocks, each behind the experts within it: the order in which their forwards end, whose reverse
// gathers them for backward.
Units units_of(const Graph& graph, const Blocks& blocks) {
  Units units;
  units.all.emplace_back().input_has_gradient = false;
  std::vector<std::size_t> places;  // of the blocks
  std::vector<std::vector<const Layer*>> experts_of(blocks.paths.size());
  for (const Layer& layer : graph.layers) {
    const auto block = layer.dispatched ? blocks.of_layer.find(layer.name) : blocks.of_layer.end();
    if (block != blocks.of_layer.end()) experts_of[index(block->second)].push_back(&layer);
  }
  for (std::size_t b = 0; b < blocks.paths.size(); ++b) {
    const std::size_t first = units.all.size();
    for (const Layer* const layer : experts_of[b]) {
      units.of_experts.emplace(layer->name, units.all.size());
      FsdpUnit& experts = units.all.emplace_back();
      experts.path = layer->name;
      experts.of_experts = true;
    }
    places.push_back(units.all.size());
    for (std::size_t u = first; u < units.all.size(); ++u) units.all[u].within = places.back();
    FsdpUnit& unit = units.all.emplace_back();
    unit.path = blocks.paths[b];
    unit.input_has_gradient = blocks.input_has_gradient[b] != 0;
  }
  for (const auto& [name, block] : blocks.of_layer) units.of_layer.emplace(name, places[index(block)]);
  return units;
}

void include(Range& range, std::int32_t step) {
  if (range.begin == range.end) range.begin = step;
  range.end = step + 1;
}

// A unit is gathered for backward when the gradient of its result comes. Where the experts end a checkpointed block,
// that is before their own backward has the block run again, and else when that runs them again.
std::int32_t gradient_comes(const Schedule& schedule, const FsdpUnit& experts) {
  std::int32_t step = experts.backward.begin;
  while (step < experts.backward.end && schedule.ops[index(step)].recompute) ++step;
  if (step == experts.backward.begin || !schedule.ops[index(step - 1)].recompute) return experts.backward.begin;
  while (schedule.ops[index(step - 1)].recompute) --step;
  return step;
}

std::int64_t padded_elements(const Graph& graph, std::int32_t parameter, std::int64_t ranks) {
  return ranks * padded_shard_elements(cut_shape(graph, graph.parameters[index(parameter)]), ranks);
}
DType type_of(const Graph& graph, std::int32_t parameter) {
  return graph.tensor(graph.parameters[index(parameter)].tensor).dtype;
}

}  // namespace

std::int64_t gathered_bytes(const Graph& graph, const FsdpUnit& unit, const Strategy& strategy) {
  const std::int64_t ranks = strategy.group(unit.of_experts).ranks;
  if (strategy.flat) {
    const FlatParameter flat = flat_layout(graph, unit, strategy);
    return ranks == 1 ? 0 : ranks * flat.shard_elements * size_of(flat.computed);
  }
  std::int64_t bytes = 0;
  for (const std::int32_t p : unit.parameters) bytes += padded_elements(graph, p, ranks) * size_of(type_of(graph, p));
  return bytes;
}

std::int64_t reduced_bytes(const Graph& graph, const Schedule& schedule, const FsdpUnit& unit,
                           const Strategy& strategy) {
  if (strategy.flat) {
    const FlatParameter flat = flat_layout(graph, unit, strategy);
    return strategy.shards() * flat.shard_elements * size_of(flat.reduced);
  }
  std::int64_t bytes = 0;
  for (const std::int32_t p : unit.parameters)
    if (gradient_place(schedule, p) != kNone)
      bytes += padded_elements(graph, p, strategy.group(unit.of_experts).ranks) *
               size_of(strategy.reduce_type.value_or(type_of(graph, p)));
  return bytes;
}

CheckpointConfig wrapped_blocks(const Strategy& strategy) {
  CheckpointConfig wrapped;
  wrapped.kind = strategy.unit_glob.empty() ? CheckpointConfig::Kind::block : CheckpointConfig::Kind::glob;
  wrapped.glob = strategy.unit_glob;
  return wrapped;
}

std::string path_of(const Graph& graph, const Checkpoint& part) {
  std::string path;
  for (std::int32_t i = part.ops.begin; i < part.ops.end; ++i) {
    const LayerId layer = graph.forward_ops[index(i)].layer;
    if (layer == kNone) continue;
    const std::string& name = graph.layers[index(layer)].name;
    path = path.empty() ? name : common_path(path, name);
  }
  return path;
}

std::vector<FsdpUnit> fsdp_units(const Graph& graph, const Schedule& schedule, const Strategy& strategy) {
  Blocks blocks = find_blocks(graph);
  if (strategy.wraps_ends && !blocks.paths.empty()) add_ends(graph, strategy.as_accelerate, blocks);
  if (blocks.paths.empty() && !strategy.unit_glob.empty())
    throw Error("no block of " + graph.model + " is called " + strategy.unit_glob, ErrorKind::usage);
  Units found = units_of(graph, blocks);
  std::vector<FsdpUnit>& units = found.all;
  const auto unit_of = [&](LayerId layer) { return layer == kNone ? 0 : found.place(graph.layers[index(layer)]); };
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    units[unit_of(graph.parameters[i].layer)].parameters.push_back(static_cast<std::int32_t>(i));

  bool in_model_loss = false;  // a loss that the model computes is within the root's forward
  for (std::int32_t i = 0; i < graph.loss_begin; ++i)
    for (const TensorId t : graph.at(graph.forward_ops[index(i)].writes))
      if ((t == graph.loss && t != graph.output) || t == graph.model_loss) in_model_loss = true;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    const ScheduledOp& step = schedule.ops[i];
    const auto at = static_cast<std::int32_t>(i);
    const bool of_loss = step.layer == kNone || !graph.layers[index(step.layer)].module;
    if (step.phase == Phase::backward) {
      if (!of_loss || (in_model_loss && step.layer != kNone)) include(units[0].backward, at);
    } else if (step.phase == Phase::forward) {
      // The root converts its inputs before it gathers, and what it returns when it is through.
      const bool begun = units[0].forward.begin != units[0].forward.end, converts = step.op == Operator::to;
      if (!of_loss || (begun && (step.layer != kNone || !converts))) include(units[0].forward, at);
    }
    for (std::size_t unit = unit_of(step.layer); unit != 0; unit = units[unit].within)
      include(step.phase == Phase::backward ? units[unit].backward : units[unit].forward, at);
  }
  for (FsdpUnit& unit : units)
    if (unit.of_experts) unit.backward.begin = gradient_comes(schedule, unit);
  return std::move(units);
}

}  // namespace gpuplan
