#include "estimator/plan/warnings.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "estimator/aten/recurrent.h"
#include "estimator/base/format.h"
#include "estimator/base/integers.h"
#include "estimator/base/list_text.h"
#include "estimator/device/arithmetic.h"
#include "estimator/plan/run_names.h"

namespace gpuplan {
namespace {

// A layer of the model's own list is given it, of which it may take the shape alone.
bool is_given(const Model& model, const std::string& input) {
  return std::ranges::any_of(model.layers, [&](const Node& node) {
    return std::holds_alternative<LayerCall>(node.what) && std::ranges::find(node.from, input) != node.from.end();
  });
}

// An input that no operation reads is on the device all the same; its name was most likely left out of a `from`.
std::vector<std::string> unread_inputs(const Model& model, const Graph& graph) {
  std::vector<char> read(graph.buffers.size(), 0);
  const auto buffer_of = [&](TensorId t) { return index(graph.tensors[index(t)].buffer); };
  for (const Op& op : graph.forward_ops)
    if (!std::holds_alternative<Marker>(op.what))  // a frame that holds its arguments does not use them
      for (const TensorId t : graph.at(op.reads))
        if (t != kNone) read[buffer_of(t)] = 1;
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    if (read[buffer_of(graph.inputs[i])] == 0 && !is_given(model, model.inputs[i].name))
      warnings.push_back("no layer reads the input \"" + model.inputs[i].name + "\"");
  return warnings;
}

bool trains_nothing(const Graph& graph) {
  return std::ranges::none_of(graph.parameters, [](const ParameterTensor& p) { return p.trainable; });
}

// What was asked for, and changes nothing in this model.
std::vector<std::string> idle_flags(const Graph& graph, const RunConfig& run) {
  std::vector<std::string> warnings;
  const auto kind = run.checkpoint.kind;
  const bool checkpoints = kind != CheckpointConfig::Kind::as_written && kind != CheckpointConfig::Kind::none;
  if (checkpoints && graph.checkpoints.empty())
    warnings.push_back(kind == CheckpointConfig::Kind::glob
                           ? "no block is called \"" + run.checkpoint.glob + "\": nothing is checkpointed"
                           : "the model has no repeated block: nothing is checkpointed");
  const auto attends = [](const Layer& layer) { return layer.type.find("Attention") != std::string_view::npos; };
  if (run.attention != Attention::automatic && std::ranges::none_of(graph.layers, attends))
    warnings.emplace_back("no layer is attention: --attention changes nothing");
  return warnings;
}

// bitsandbytes' modules take the place of linear ones: embeddings, convolutions and the experts of a mixture, which are
// parameters of their own, stay as they are.
std::vector<std::string> about_stored_weights(const Graph& graph, const RunConfig& run) {
  if (!is_bitsandbytes(run.weights)) return {};
  std::int64_t stored = 0, all = 0;
  for (const ParameterTensor& p : graph.parameters) {
    if (p.trainable) continue;
    const Tensor& t = graph.tensors[index(p.tensor)];
    const std::int64_t elements = t.shape.elements();
    all += elements;
    if (graph.buffers[index(t.buffer)].bytes < elements * size_of(t.dtype)) stored += elements;
  }
  if (all == 0 || stored >= all - stored) return {};
  return {"--weights " + std::string(name_of(run.weights)) + " stores " + format_count(stored) + " of " +
          format_count(all) +
          " frozen numbers so: bitsandbytes replaces linear layers but the head, no embedding, convolution or expert"};
}

// bitsandbytes 0.50, whose rules are planned: torch >= 2.4 (its pyproject.toml).
constexpr PyTorchVersion kOldestForBitsandbytes = 204;

std::vector<std::string> about_release_for_bitsandbytes(const RunConfig& run) {
  const bool has_part = is_bitsandbytes(run.weights) || (run.mode == Mode::train && run.optimizer.bitsandbytes);
  if (!has_part || run.pytorch >= kOldestForBitsandbytes) return {};
  return {"bitsandbytes 0.50, whose rules are planned, needs PyTorch 2.4 or newer: an older one, with PyTorch " +
          version_text(run.pytorch) + ", may take other memory"};
}

// cuDNN was asked on a machine without a GPU.
std::vector<std::string> about_recurrent_layers(const Graph& graph, const RunConfig& run) {
  std::vector<std::string> warnings;
  const auto recurrent = [](const Layer& l) { return l.type == "LSTM" || l.type == "GRU" || l.type == "RNN"; };
  const auto in_bf16 = [&](const Layer& l) {
    return recurrent(l) && graph.tensors[index(graph.at(l.inputs).front())].dtype == DType::bf16;
  };
  if (std::ranges::none_of(graph.layers, recurrent)) return warnings;
  warnings.emplace_back(
      run.pytorch >= 200
          ? "modelled: reserve space and workspace of recurrent layers are the sizes that cuDNN 9 reports "
            "without a GPU"
          : "assumed: cuDNN 8 needs the same reserve space and workspace for recurrent layers as cuDNN 9");
  if (run.pytorch < aten::kBfloat16ByCudnn && std::ranges::any_of(graph.layers, in_bf16))
    warnings.emplace_back(
        "PyTorch before 2.10 runs bf16 recurrent layers step by step, without cuDNN: they are planned as cuDNN layers "
        "anyway");
  return warnings;
}

std::vector<std::string> about_asked_type(const Model& model, const RunConfig& run) {
  const AskedType planned{run.precision, run.autocast};
  if (!model.exported_for || *model.exported_for == planned) return {};
  const auto words = [](const AskedType& type) {
    return type.autocast ? "autocast to " + std::string(name_of(*type.autocast)) : std::string(name_of(type.precision));
  };
  return {"not in the spec: what code of the model that asks for its type does in " + words(planned) +
          "; it was exported for " + words(*model.exported_for)};
}

std::vector<std::string> about_volumes(const Graph& graph, const RunConfig& run) {
  const auto convolves = [](const Layer& layer) { return layer.type == "Conv3d"; };
  if (run.scratch != Scratch::full || std::ranges::none_of(graph.layers, convolves)) return {};
  return {"cuDNN's workspaces of Conv3d are not planned: a peak during a 3-D convolution is higher"};
}

// The scratch of operators without a layer is that of the GPU that they were recorded on.
std::vector<std::string> about_recorded_operators(const Model& model, const Graph& graph, const Gpu* named_gpu) {
  if (named_gpu == nullptr || model.recorded_on.empty() || named_gpu->name == model.recorded_on) return {};
  std::vector<std::string> operators;
  const auto add = [&](const Op& op, LayerId layer) {
    const auto* const work = std::get_if<OpaqueKernel>(&op.what);
    if (work == nullptr || (op.kind != Operator::recorded && op.kind != Operator::recorded_backward)) return;
    const auto actions = std::span(work->program).first(index(work->actions));
    const bool has_scratch = actions.empty() || std::ranges::any_of(actions, allocates);  // empty: each is an operation
    const std::string& name = graph.layers[index(layer)].name;
    if (has_scratch && std::ranges::find(operators, name) == operators.end()) operators.push_back(name);
  };
  for (const Op& op : graph.forward_ops) add(op, op.layer);
  for (const AutogradNode& node : graph.nodes)
    for (std::int32_t i = node.ops.begin; i < node.ops.end; ++i) add(graph.backward_ops[index(i)], node.layer);
  if (operators.empty()) return {};
  const std::string more = operators.size() > 3 ? " and " + std::to_string(operators.size() - 3) + " more" : "";
  operators.resize(std::min<std::size_t>(operators.size(), 3));
  return {"recorded on " + model.recorded_on + ": the scratch of " + joined(operators) + more +
          ", operators without a layer; it may be another on " + named_gpu->name};
}

}  // namespace

bool assumes_loss(const Model& model) { return model.losses.empty() && model.loss.mark.source == nullptr; }

std::vector<std::string> warnings_about(const Model& model, const Graph& graph, const RunConfig& run,
                                        const Gpu* named_gpu) {
  std::vector<std::string> warnings;
  for (const Mismatch& difference : model.differs)
    if (difference.mode == run.mode) warnings.push_back(difference.text);
  for (const Note& note : model.notes)
    if (!note.of || note.of == run.precision || note.of == run.autocast) warnings.push_back(note.text);
  for (std::string& warning : about_asked_type(model, run)) warnings.push_back(std::move(warning));
  for (std::string& warning : unread_inputs(model, graph)) warnings.push_back(std::move(warning));
  if (run.mode == Mode::train && assumes_loss(model))
    warnings.emplace_back("the spec has no \"loss:\": CrossEntropyLoss() of the model's output is assumed");
  if (run.mode == Mode::train && trains_nothing(graph))
    warnings.emplace_back("no parameter is trained: PyTorch's optimizers refuse an empty list of parameters");
  for (std::string& warning : idle_flags(graph, run)) warnings.push_back(std::move(warning));
  if (named_gpu != nullptr)
    for (std::string& warning : emulated_arithmetic(run, *named_gpu)) warnings.push_back(std::move(warning));
  if (named_gpu != nullptr && named_gpu->memory_assumed)
    warnings.push_back("no published reading of the memory of " + named_gpu->title +
                       " is known: 93 % of its nominal size is assumed, less 3 % that the driver keeps");
  for (std::string& warning : about_stored_weights(graph, run)) warnings.push_back(std::move(warning));
  for (std::string& warning : about_release_for_bitsandbytes(run)) warnings.push_back(std::move(warning));
  for (std::string& warning : about_recurrent_layers(graph, run)) warnings.push_back(std::move(warning));
  for (std::string& warning : about_volumes(graph, run)) warnings.push_back(std::move(warning));
  for (std::string& warning : about_recorded_operators(model, graph, named_gpu)) warnings.push_back(std::move(warning));
  if (named_gpu == nullptr)
    warnings.emplace_back("no --gpu given: kernel choices and workspaces are those of an A100-class device");
  return warnings;
}

}  // namespace gpuplan
