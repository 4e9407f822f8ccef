#include "estimator/graph/layer_writer.h"
#include "estimator/base/integers.h"

#include <algorithm>
#include <array>

#include "estimator/base/error.h"

namespace gpuplan {

TensorId LayerWriter::new_input(const Input& input, const Shape& shape, DType dtype) {
  try {
    const TensorId t = lowering_.new_input(shape, dtype);
    graph_.tensor(t).requires_grad = input.requires_grad && run_.mode == Mode::train;
    graph_.inputs.push_back(t);
    return t;
  } catch (Error& e) {
    e.at(input.mark);
    throw;
  }
}

TensorId LayerWriter::add_before(const LayerCall& call, const std::string& name, TensorId input) {
  Node node;
  node.name = name;
  const TensorId y = add(call, node, name, std::span(&input, 1), false).front();
  graph_.layers.back().module = false;
  return y;
}

TensorId LayerWriter::converted_input(TensorId input, DType dtype) { return lowering_.builder().cast(input, dtype); }

const std::vector<TensorId>& LayerWriter::add(const LayerCall& written, const Node& node, const std::string& path,
                                              std::span<const TensorId> inputs, bool frozen) {
  const LayerDef* known = among_losses_ ? find_layer(catalog_, written.type) : nullptr;
  const LayerDef& def = definition(written, known != nullptr && known->loss);
  LoweredCall call = begin(written, def, path);
  layer(call.layer).module = !among_losses_;
  call.frozen = !def.adapter && (frozen || lora_.given());
  call.head = path == head_;
  call.saved = !def.adapter && !among_losses_ && lora_.save(path);
  if (!node.tie.empty()) call.tied = def.loss ? loss_with_targets(node) : tied_layer(node, path);
  if (!node.tie.empty() && !def.loss) ties_[path] = {call.layer, call.tied};
  try {
    const bool none = def.max_inputs == 0 || (def.min_inputs == 0 && node.from.empty());  // not what comes before
    const std::span<const TensorId> used = none ? std::span<const TensorId>{} : inputs;
    const std::vector<TensorId>& outputs = lowering_.lower(call, used);
    hold_inputs(call.layer, used);
    finish(call.layer, used, outputs.front());
    if (call.saved || !lora_.take(def, node, path)) return outputs;
    adapt(path, written.mark, inputs.front(), used.size() == 1 && lowering_.builder().stored());
    return adapted_;
  } catch (Error& e) {
    e.at(written.mark).context(node.where.empty() ? "in " + path : node.where);
    throw;
  }
}

TensorId LayerWriter::join(const LayerCall& written, const Node& node, const std::string& path,
                           std::span<const TensorId> inputs) {
  const LoweredCall call = begin(written, definition(written, false), path);
  layer(call.layer).module = false;
  try {
    const TensorId y = lowering_.lower(call, inputs).front();
    finish(call.layer, inputs, y);
    return y;
  } catch (Error& e) {
    e.at(node.mark).context(node.where);
    throw;
  }
}

// peft's Linear.forward: the layer that it wraps, then the adapter. It holds its own argument; the layer's result is a
// name that the sum replaces.
void LayerWriter::adapt(const std::string& path, const SourceMark& mark, TensorId x, bool stored) {
  LayerCall written{"LoraAdapter", {}, mark};
  written.arguments.push_back({"rank", {lora_.lora().rank}, mark, mark});
  written.arguments.push_back({"dropout", {lora_.lora().dropout}, mark, mark});
  written.arguments.push_back({"alpha", {lora_.lora().alpha}, mark, mark});
  if (stored)
    written.arguments.push_back(
        {"base", {std::string(is_bitsandbytes_4bit(run_.weights) ? "Linear4bit" : "Linear8bitLt")}, mark, mark});
  const LayerId adapted = static_cast<LayerId>(graph_.layers.size() - 1);
  std::vector<TensorId> given{x, layer(adapted).output};
  if (lora_.lora().dora) {
    written.type = "DoraAdapter";
    written.arguments.push_back({"transposed", {layer(adapted).type == "Conv1D"}, mark, mark});
    for (const ParameterTensor& p : graph_.parameters)
      if (p.layer == adapted) given.push_back(p.tensor);
  }
  const LoweredCall call = begin(written, definition(written, false), path + ".lora");
  adapted_ = lowering_.lower(call, given);
  hold_inputs(call.layer, {&x, 1});
  finish(call.layer, given, adapted_.front());
}

void LayerWriter::add_loss(const LayerCall& written, std::span<const TensorId> outputs) {
  const LoweredCall call = begin(written, definition(written, true), "loss");
  layer(call.layer).module = false;
  const TensorId output = graph_.output;
  const bool takes_all = call.def->max_inputs > 1 && !outputs.empty() && outputs.front() == output;
  const std::span<const TensorId> given = takes_all ? outputs : std::span<const TensorId>(&output, 1);
  const DType dtype = graph_.tensor(output).dtype;
  if (!is_floating(dtype))
    throw Error("the loss needs a floating-point output, the model's is " + std::string(name_of(dtype)))
        .at(written.mark);
  const TensorId loss = lowering_.lower(call, given).front();
  finish(call.layer, given, loss);
  end_losses(loss, written.mark);
}

void LayerWriter::end_losses(TensorId loss, const SourceMark& mark) {
  among_losses_ = false;
  const Tensor& value = graph_.tensor(loss);
  if (value.shape.rank() != 0 || !is_floating(value.dtype))
    throw Error("the loss must be one floating-point number, not " + to_string(value.shape) + " of " +
                std::string(name_of(value.dtype)))
        .at(mark)
        .help("the last entry of loss: is what backward begins with: Mean() or Sum() makes one number of many");
  graph_.loss = loss;
}

void LayerWriter::divide_loss(bool in_model) {
  const TensorId loss = graph_.loss;
  const Shape shape = graph_.tensor(loss).shape;
  const Elementwise each{1};
  LayerBuilder& builder = lowering_.builder();
  graph_.loss = builder.emit(Operator::div, each, {loss}, shape, graph_.tensor(loss).dtype);
  builder.attributes({{Attribute::other, run_.micro_batches}});
  if (NodeBuilder node = builder.node("DivBackward0", graph_.loss, {loss})) {
    const Operand quotient = node.run(Operator::div, each, {node.grad()}, shape, node.dtype(node.grad()));
    node.attributes({{Attribute::other, run_.micro_batches}});
    node.give(loss, quotient);
  }
  if (in_model) graph_.model_loss = loss;
}

// What is done to the loss outside of every module.
void LayerWriter::leave_modules(std::size_t ops, std::size_t nodes) {
  for (std::size_t i = ops; i < graph_.forward_ops.size(); ++i) graph_.forward_ops[i].layer = kNone;
  for (std::size_t i = nodes; i < graph_.nodes.size(); ++i) {
    AutogradNode& node = graph_.nodes[i];
    node.layer = kNone;
    for (std::int32_t o = node.ops.begin; o < node.ops.end; ++o) graph_.backward_ops[index(o)].layer = kNone;
  }
}

void LayerWriter::convert_loss(DType type) {
  const std::size_t ops = graph_.forward_ops.size(), nodes = graph_.nodes.size();
  graph_.loss = lowering_.builder().cast(graph_.loss, type);
  leave_modules(ops, nodes);
}

void LayerWriter::divide_loss_outside() {
  const std::size_t ops = graph_.forward_ops.size(), nodes = graph_.nodes.size();
  divide_loss(true);
  graph_.division = size_of_vector(graph_.forward_ops) - 1;
  leave_modules(ops, nodes);
}

void LayerWriter::convert_output() {
  const std::size_t ops = graph_.forward_ops.size();
  graph_.output = lowering_.builder().cast(graph_.output, DType::fp32);
  if (graph_.forward_ops.size() > ops && !graph_.layers.empty()) graph_.forward_ops.back().layer = last_layer();
}

// torch/nn/parallel/distributed.py, _post_forward: a list holds what was returned until all of it is copied.
void LayerWriter::copy_outputs(bool loss) {
  const std::size_t ops = graph_.forward_ops.size(), nodes = graph_.nodes.size();
  LayerBuilder& b = lowering_.builder();
  const auto copied = [&](TensorId t) {
    const TensorId y = b.emit(Operator::clone, Copy{b.elements(t)}, {t}, b.shape(t), b.dtype(t));
    if (NodeBuilder node = b.node("_DDPSinkBackward", y, {t})) node.give(t, node.grad());
    return y;
  };
  const TensorId returned_loss = graph_.loss, returned = graph_.output;
  if (loss) graph_.loss = copied(returned_loss);
  if (returned != returned_loss && graph_.tensor(returned).requires_grad) graph_.output = copied(returned);
  if (returned == returned_loss) graph_.output = graph_.loss;
  b.hold({returned});
  if (loss) b.hold({returned_loss});
  leave_modules(ops, nodes);
}

// The last layer holds the casts until then, also where it was not lowered but appended as an earlier one.
void LayerWriter::end_autocast() {
  const std::size_t ops = graph_.forward_ops.size();
  lowering_.end_autocast();
  if (graph_.forward_ops.size() > ops && !graph_.layers.empty()) graph_.forward_ops.back().layer = last_layer();
}

// What follows a layer is not that of a part of it.
LayerId LayerWriter::last_layer() const {
  const auto last = std::ranges::find(graph_.layers.rbegin(), graph_.layers.rend(), false, &Layer::dispatched);
  return static_cast<LayerId>(graph_.layers.rend() - last) - 1;
}

void LayerWriter::locals_die(std::span<const TensorId> held) {
  if (held.empty()) return;
  Op op{Operator::locals_die, Marker{}, kNone, {}, {}};
  op.reads = graph_.append_operands(held);
  op.writes = {op.reads.end, op.reads.end};
  op.layer = last_layer();
  graph_.forward_ops.push_back(op);
}

LayerWriter::Written LayerWriter::written() const {
  return {graph_.tensors.size(),          graph_.layers.size(),
          graph_.forward_ops.size(),      graph_.nodes.size(),
          graph_.checkpoints.size(),      graph_.replaced_buffers.size(),
          graph_.kept_with_output.size(), graph_.kept_in_forward.size(),
          graph_.leaves.size(),           graph_.held_by_nodes.size(),
          graph_.cleared.size(),          graph_.autocast_casts.size(),
          graph_.model_storage.size()};
}

void LayerWriter::drop_runs_since(const Written& then) {
  for (std::size_t i = then.ops; i < graph_.forward_ops.size(); ++i)
    for (const TensorId t : graph_.at(graph_.forward_ops[i].reads)) {
      if (static_cast<std::size_t>(t) >= then.tensors) continue;
      Tensor& read = graph_.tensor(t);  // an operation in place made another tensor of it
      if (read.replaced_by != kNone && static_cast<std::size_t>(read.replaced_by) >= then.tensors)
        read.replaced_by = kNone;
      lowering_.forget_cast(t, static_cast<TensorId>(then.tensors));
    }
  graph_.forward_ops.resize(then.ops);
  graph_.nodes.resize(then.nodes);
  graph_.checkpoints.resize(then.checkpoints);
  graph_.replaced_buffers.resize(then.replaced);
  graph_.kept_with_output.resize(then.kept);
  graph_.kept_in_forward.resize(then.held);
  graph_.leaves.resize(then.leaves);
  graph_.held_by_nodes.resize(then.of_nodes);
  graph_.cleared.resize(then.cleared);
  graph_.autocast_casts.resize(then.casts);
  const auto made = graph_.model_storage.begin() + static_cast<std::ptrdiff_t>(then.storage);
  graph_.model_storage.erase(
      std::remove_if(made, graph_.model_storage.end(), [&](TensorId t) { return is_constant(graph_, t); }),
      graph_.model_storage.end());
  const auto end = static_cast<std::int32_t>(then.ops);
  for (std::size_t i = then.layers; i < graph_.layers.size(); ++i) graph_.layers[i].ops = {end, end};
}

// A layer of several operations: the call holds each of its inputs while the last one allocates.
void LayerWriter::hold_inputs(LayerId id, std::span<const TensorId> inputs) {
  const std::vector<Op>& ops = graph_.forward_ops;
  const auto begin = static_cast<std::size_t>(layer(id).ops.begin);
  if (ops.size() < begin + 2) return;
  std::span<const Op> own(ops.data() + begin, ops.size() - begin);
  const auto writes = [](const Op& op) { return op.writes.begin != op.writes.end; };
  const auto last = std::ranges::find_if(own.rbegin(), own.rend(), writes);
  if (last == own.rend()) return;
  own = own.last(static_cast<std::size_t>(last - own.rbegin()) + 1);
  const auto read_since = [&](TensorId x) {
    return std::ranges::any_of(own, [&](const Op& op) {
      return std::ranges::any_of(graph_.at(op.reads),
                                 [&](TensorId t) { return graph_.tensor(x).buffer == graph_.tensor(t).buffer; });
    });
  };
  std::vector<TensorId> waiting;
  std::ranges::remove_copy_if(inputs, std::back_inserter(waiting), read_since);
  if (!waiting.empty()) locals_die(waiting);
}

LoweredCall LayerWriter::begin(const LayerCall& written, const LayerDef& def, const std::string& path) {
  Layer& added = graph_.layers.emplace_back();
  added.name = path;
  added.type = def.name;
  added.mark = written.mark;
  added.ops.begin = static_cast<std::int32_t>(graph_.forward_ops.size());
  LoweredCall call;
  call.def = &def;
  call.written = &written;
  call.layer = static_cast<LayerId>(graph_.layers.size() - 1);
  return call;
}

void LayerWriter::finish(LayerId id, std::span<const TensorId> inputs, TensorId output) {
  layer(id).ops.end = static_cast<std::int32_t>(graph_.forward_ops.size());
  layer(id).inputs = graph_.append_operands(inputs);
  layer(id).output = output;
}

bool LayerWriter::has_weights(LayerId id) const {
  return graph_.layers[static_cast<std::size_t>(id)].parameters > 0 ||
         std::ranges::binary_search(graph_.named_buffers, id, {}, &BufferTensor::layer);
}

LayerId LayerWriter::tied_layer(const Node& node, const std::string& path) {
  for (; listed_ < graph_.layers.size(); ++listed_)
    if (has_weights(static_cast<LayerId>(listed_)))
      with_weights_[graph_.layers[listed_].name] = static_cast<LayerId>(listed_);
  const auto dot = path.rfind('.');
  const std::string sibling = dot == std::string::npos ? node.tie : path.substr(0, dot + 1) + node.tie;
  for (const std::string& candidate : {sibling, node.tie}) {
    if (const auto tie = ties_.find(candidate); tie != ties_.end()) return first_of_ties(candidate, tie->second, node);
    if (const auto it = with_weights_.find(candidate); it != with_weights_.end()) return it->second;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph_.layers.size(); ++i)
    if (has_weights(static_cast<LayerId>(i))) names.push_back(graph_.layers[i].name);
  throw Error("there is no earlier layer \"" + node.tie + "\" with weights to share" + did_you_mean(node.tie, names))
      .at(node.tie_mark.line > 0 ? node.tie_mark : node.mark)
      .context(node.where);
}

// Who shares weights has none; one that has a bias of its own beside them would hand on either.
LayerId LayerWriter::first_of_ties(const std::string& path, const Tie& tie, const Node& node) const {
  if (!has_weights(tie.layer)) return tie.first;
  throw Error("\"" + path + "\" shares weights itself and has others of its own")
      .at(node.tie_mark.line > 0 ? node.tie_mark : node.mark)
      .context(node.where)
      .help("tie: " + graph_.layers[static_cast<std::size_t>(tie.first)].name + " names the layer that has them");
}

LayerId LayerWriter::loss_with_targets(const Node& node) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
    const LayerDef* def = find_layer(catalog_, graph_.layers[i].type);
    if (def == nullptr || !def->loss) continue;
    if (graph_.layers[i].name == node.tie) return static_cast<LayerId>(i);
    names.push_back(graph_.layers[i].name);
  }
  throw Error("there is no earlier loss \"" + node.tie + "\" with targets to share" + did_you_mean(node.tie, names))
      .at(node.tie_mark.line > 0 ? node.tie_mark : node.mark)
      .context(node.where);
}

const LayerDef& LayerWriter::definition(const LayerCall& call, bool loss) {
  for (const LayerDef* d : recent_)
    if (d != nullptr && d->loss == loss && d->name == call.type) return *d;
  const LayerDef* def = find_layer(catalog_, call.type);
  if (def != nullptr && def->loss == loss) {
    recent_[next_recent_++ % recent_.size()] = def;
    return *def;
  }
  std::vector<std::string> names;
  for (const LayerDef* d : catalog_)
    if (d->loss == loss) names.emplace_back(d->name);
  throw Error((loss ? "unknown loss \"" : "unknown layer \"") + call.type + "\"" + did_you_mean(call.type, names))
      .at(call.mark)
      .help(loss ? "the losses: CrossEntropyLoss, MSELoss, BCEWithLogitsLoss, NLLLoss, L1Loss, mean, sum"
                 : "the supported layers: gpuplan explain layers");
}

}  // namespace gpuplan
