// Layer calls lowered one after the other on made-up inputs, without a model around them.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "estimator/graph/layer_lowering.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"

namespace gpuplan {

struct Lowered {
  Graph graph;
  std::vector<TensorId> inputs;   // leaves; floating ones want a gradient in training
  std::vector<TensorId> outputs;  // of the last call
};

/// The calls of a spec's `layers:`; a loss is written like any other. The model keeps what their marks point into.
inline Model read_calls(const std::vector<std::string>& calls) {
  std::string text = "gpuplan: 1\nname: calls\ninput: {shape: [1]}\nlayers:\n";
  for (const std::string& call : calls) text += "  - " + call + "\n";
  return read_model(std::make_shared<Source>(Source{"calls.yaml", text}));
}

/// Lowers the calls, each on the first output of the one before. The inputs have the category `inputs`, and images lie
/// as run.layout says.
inline Lowered lower_calls(const std::vector<std::string>& calls, const std::vector<Shape>& inputs, DType input_dtype,
                           const RunConfig& run, const Gpu& gpu) {
  const Model model = read_calls(calls);
  Lowered result;
  RunConfig of_inputs = run;
  if (!inputs.empty() && inputs.front().rank() > 0) of_inputs.batch = inputs.front()[0];
  LayerLowering builder(result.graph, of_inputs, gpu);
  for (const Shape& shape : inputs) {
    const TensorId t = builder.new_input(shape, input_dtype);
    result.graph.tensors[static_cast<std::size_t>(t)].requires_grad =
        run.mode == Mode::train && is_floating(input_dtype);
    result.inputs.push_back(t);
  }
  result.outputs = result.inputs;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& written = std::get<LayerCall>(model.layers[i].what);
    LoweredCall call;
    call.def = find_layer(make_catalog(), written.type);
    if (call.def == nullptr) throw Error("no layer " + written.type);
    call.written = &written;
    call.layer = static_cast<LayerId>(i);
    result.graph.layers.emplace_back().name = "layer" + std::to_string(i);
    if (call.def->in_model && result.graph.inputs.empty())  // its labels are the model's first input
      result.graph.inputs.push_back(
          builder.new_tensor({inputs.front()[0], inputs.front()[1]}, DType::int64, Category::inputs));
    const std::size_t used = i == 0 ? result.outputs.size() : 1;
    const std::vector<TensorId> given(result.outputs.begin(),
                                      result.outputs.begin() + static_cast<std::ptrdiff_t>(used));
    result.outputs = builder.lower(call, given);
  }
  return result;
}

/// Bytes of the distinct storages that autograd nodes keep; parameters, buffers and targets left out.
inline std::int64_t saved_bytes(const Graph& g) {
  const auto buffer_of = [&](TensorId t) { return g.tensors[static_cast<std::size_t>(t)].buffer; };
  std::set<BufferId> seen;  // or not counted
  for (const TensorId target : g.inputs) seen.insert(buffer_of(target));
  std::int64_t bytes = 0;
  for (const AutogradNode& node : g.nodes)
    for (std::int32_t i = node.saved.begin; i < node.saved.end; ++i) {
      const BufferId id = buffer_of(g.saved[static_cast<std::size_t>(i)]);
      const Buffer& buffer = g.buffers[static_cast<std::size_t>(id)];
      const bool weight = buffer.category == Category::parameters || buffer.category == Category::buffers;
      if (!weight && seen.insert(id).second) bytes += buffer.bytes;
    }
  return bytes;
}

}  // namespace gpuplan
