#include "tools/answers/check_weights.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "estimator/base/format.h"
#include "estimator/graph/build.h"
#include "layers/catalog.h"
#include "tools/answers/checkpoint_names.h"

namespace gpuplan {

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

bool same(const Shape& planned, const std::vector<std::int64_t>& stored) {
  if (planned.rank() != static_cast<int>(stored.size())) return false;
  for (int i = 0; i < planned.rank(); ++i)
    if (planned[i] != stored[static_cast<std::size_t>(i)]) return false;
  return true;
}

std::string path_of(const Graph& graph, const ParameterTensor& parameter) {
  const std::string& layer = graph.layers[static_cast<std::size_t>(parameter.layer)].name;
  if (parameter.name.empty()) return layer;
  return layer.empty() ? std::string(parameter.name) : layer + "." + std::string(parameter.name);
}

// The outermost modules of the planned names: what a checkpoint of the inner model leaves out.
std::set<std::string> prefixes_of(const PlannedParameters& planned) {
  std::set<std::string> prefixes;
  for (const PlannedParameter& parameter : planned.own)
    if (const std::size_t dot = parameter.name.find('.'); dot != std::string::npos)
      prefixes.insert(parameter.name.substr(0, dot + 1));
  return prefixes;
}

using Open = std::unordered_map<std::string, const PlannedParameter*>;

// What a model with a head calls the one without: base_model_prefix of transformers' classes.
constexpr std::string_view kBasePrefixes[] = {"bert.", "distilbert.", "model.", "roberta.", "transformer.", "vit."};

// A tensor's name as it is planned: with a prefix that the checkpoint leaves out, or without one that only a model with
// a head has; "" where nothing is called so.
std::string name_among(const std::string& stored, const std::set<std::string>& prefixes, const Open& open) {
  if (open.contains(stored)) return stored;
  for (const std::string& prefix : prefixes)
    if (open.contains(prefix + stored)) return prefix + stored;
  for (const std::string_view prefix : kBasePrefixes)
    if (stored.starts_with(prefix) && open.contains(stored.substr(prefix.size()))) return stored.substr(prefix.size());
  return "";
}

std::string planned_name(const std::string& stored, const std::set<std::string>& prefixes, const Open& open) {
  std::string name = name_among(stored, prefixes, open);
  for (const std::string& other : other_names(stored))
    if (name.empty()) name = name_among(other, prefixes, open);
  return name.empty() ? stored : name;
}

std::string lines(const std::string& label, const std::vector<std::string>& list) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), kShown); ++i) text += "  " + label + list[i] + "\n";
  if (list.size() > kShown) text += "  " + label + std::to_string(list.size() - kShown) + " more\n";
  return text;
}

}  // namespace

PlannedParameters planned_parameters(const Model& model) {
  RunConfig run;
  run.mode = Mode::infer;
  run.optimizer.kind = OptimizerKind::none;
  const Graph graph = build_graph(model, make_catalog(), run, assumed_gpu());
  PlannedParameters planned;
  std::unordered_set<std::string> names;
  for (const ParameterTensor& parameter : graph.parameters) {
    planned.own.push_back({path_of(graph, parameter), graph.tensor(parameter.tensor).shape});
    names.insert(planned.own.back().name);
  }
  for (const Layer& layer : graph.layers)
    if ((layer.type == "Linear" || layer.type == "Embedding") && !names.contains(layer.name + ".weight"))
      planned.shared.push_back(layer.name + ".weight");
  return planned;
}

WeightCheck check_weights(const PlannedParameters& planned, const StoredTensors& stored) {
  Open open;
  for (const PlannedParameter& parameter : planned.own) open.emplace(parameter.name, &parameter);
  const std::unordered_set<std::string> shared(planned.shared.begin(), planned.shared.end());
  const std::set<std::string> prefixes = prefixes_of(planned);
  WeightCheck check;
  for (const StoredTensor& tensor : read_by_present_names(stored).tensors) {
    const std::string name = planned_name(tensor.name, prefixes, open);
    const auto at = open.find(name);
    const std::string written = tensor.name + (tensor.dtype.empty() ? "" : " " + shape_text(tensor.shape));
    if (at == open.end()) {
      (shared.contains(name) ? check.shared : check.extra).push_back(written);
      continue;
    }
    const Shape shape = at->second->shape;
    open.erase(at);
    if (tensor.dtype.empty()) ++check.shapes_unknown;
    if (tensor.dtype.empty() || same(shape, tensor.shape))
      ++check.found;
    else
      check.differing.push_back(written + ", planned " + to_string(shape));
    if (!tensor.dtype.empty()) check.elements += shape.elements();
  }
  for (const PlannedParameter& parameter : planned.own)
    if (open.contains(parameter.name)) check.missing.push_back(parameter.name + " " + to_string(parameter.shape));
  return check;
}

std::string weight_check_text(const WeightCheck& check, const StoredTensors& stored, const std::string& file,
                              const std::string& model) {
  std::set<std::string> types;
  for (const StoredTensor& tensor : stored.tensors)
    if (!tensor.dtype.empty()) types.insert(tensor.dtype);
  std::string text = file + ": " + std::to_string(stored.tensors.size()) + " tensors";
  for (const std::string& type : types) text += (type == *types.begin() ? " of " : ", ") + type;
  const std::size_t planned = check.found + check.missing.size() + check.differing.size();
  text += "\n  " + std::to_string(check.found) + " of " + std::to_string(planned) + " parameters of " + model +
          " are there";
  if (check.shapes_unknown > 0)
    text += ", " + std::to_string(check.shapes_unknown) +
            " by their names only: " + std::to_string(stored.absent_files.size()) + " files of the index are not here";
  text += "\n" + lines("missing    ", check.missing) + lines("shape      ", check.differing) +
          lines("extra      ", check.extra) + lines("shared     ", check.shared);
  return text;
}

}  // namespace gpuplan
