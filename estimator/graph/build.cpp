#include "estimator/graph/build.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/glob.h"
#include "estimator/base/integers.h"
#include "estimator/graph/block_names.h"
#include "estimator/graph/entry_inputs.h"
#include "estimator/graph/layer_writer.h"
#include "estimator/graph/loaded_construction.h"
#include "estimator/graph/parameter_order.h"
#include "estimator/graph/tensor_style.h"
#include "estimator/spec/work.h"

namespace gpuplan {
namespace {

std::size_t entries(const Body& body);

/// About how many layers an entry comes to.
struct EntryCount {
  std::size_t operator()(const LayerCall&) const { return 1; }
  std::size_t operator()(const Block& b) const { return entries(b.body); }
  std::size_t operator()(const Repeat& r) const { return entries(r.items); }
  std::size_t operator()(const Residual& r) const { return entries(r.body) + entries(r.shortcut) + 1; }
  std::size_t operator()(const Parallel& p) const {
    std::size_t n = 1;
    for (const Parallel::Branch& branch : p.branches) n += entries(branch.body);
    return n;
  }
};

std::size_t entries(const Body& body) {
  std::size_t n = 0;
  for (const Node& node : body) n += std::visit(EntryCount{}, node.what);
  return n;
}

const Lora* lora_of(const Model& model, const RunConfig& run) {
  if (model.lora && run.lora)
    throw Error("--lora: the model has adapters of its own (lora:)", ErrorKind::usage).at(model.lora->mark);
  return model.lora ? &*model.lora : run.lora ? &*run.lora : nullptr;
}

// The last linear layer of the model itself, behind all blocks; empty where it ends with a block.
std::string head_of(const Body& body) {
  for (auto node = body.rbegin(); node != body.rend(); ++node) {
    const auto* call = std::get_if<LayerCall>(&node->what);
    if (call == nullptr) break;
    if (call->type == "Linear" || call->type == "Conv1D") return node->name;
  }
  return "";
}

class GraphBuilder {
  using Branch = EntryInputs::Branch;
  using Current = EntryInputs::Current;

 public:
  GraphBuilder(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
               const CheckpointConfig* wrapped)
      : model_(model),
        layers_(graph_, catalog, run, gpu, lora_of(model, run), head_of(model.layers)),
        inputs_(graph_, run.mode),
        run_(run),
        gpu_(gpu),
        wrapped_(wrapped) {
    graph_.model = model.name;
    graph_.knows_construction = model.construction.has_value();
  }

  Graph build() {
    graph_.reserve(entries(model_.layers));
    BlockNames names;
    add_inputs(names);
    const TensorId first = names.given().empty() ? kNone : names.given().front();
    graph_.output = inputs_.latest(body(model_.layers, "", first, names, false));
    if (graph_.output == kNone) throw Error("the model has no layers").at(model_.loss.mark);
    layers_.locals_die(converted_inputs_);  // arguments of Module.__call__ until it returns
    refuse_generation_without_cache();
    compute_loss(names);
    order_construction("", model_.order, model_.layers, {0, 0});
    for (const ConstructionOrder& o : orders_) order_parameters(graph_, o);
    graph_.parameters = in_module_order(std::move(graph_.parameters), graph_.layers);
    layers_.check_targets();
    order_adapters();
    if (is_bitsandbytes(run_.weights))
      construct_by_loading(graph_, run_, gpu_);
    else if (model_.construction)
      place_construction(*model_.construction);
    // The inputs of the model are allocated before the loss's targets, and both after the model.
    return std::move(graph_);
  }

 private:
  void refuse_generation_without_cache() const {
    if (run_.generation.part == Generation::Part::none) return;
    const auto caches = [](const Buffer& b) { return b.category == Category::kv_cache; };
    if (std::ranges::any_of(graph_.buffers, caches)) return;
    throw Error("--phase: the model has no KV cache, since it has no KVCache layer", ErrorKind::usage)
        .help("leave --phase out to plan one forward of all its tokens; gpuplan explain KVCache");
  }

  // The program of Graph::initialization: the weights in their order, and what the steps make between them, one step
  // after the other.
  void place_construction(const std::vector<ConstructionStep>& steps) {
    const std::size_t weights = graph_.model_storage.size() - graph_.adapters.size() - graph_.saved_modules.size();
    std::size_t made = 0;
    for (const ConstructionStep& step : steps) {
      const std::size_t there = step.after.empty() ? made : std::max(made, weights_after(step, weights));
      graph_.initialization.insert(graph_.initialization.end(), there - made, kResultAllocation);
      graph_.initialization.insert(graph_.initialization.end(), step.run.begin(), step.run.end());
      made = there;
    }
    graph_.initialization.insert(graph_.initialization.end(), weights - made, kResultAllocation);
  }

  // How many weights are there with the last of the step's entry.
  std::size_t weights_after(const ConstructionStep& step, std::size_t weights) const {
    std::vector<std::string> names;
    for (std::size_t i = weights; i > 0; --i) {
      const Tensor& t = graph_.tensor(graph_.model_storage[i - 1]);
      const LayerId layer = graph_.buffers[static_cast<std::size_t>(t.buffer)].layer;
      if (layer == kNone) continue;
      const std::string& name = graph_.layers[static_cast<std::size_t>(layer)].name;
      if (name == step.after || (name.starts_with(step.after) && name[step.after.size()] == '.')) return i;
      names.push_back(name);
    }
    throw Error("no entry \"" + step.after + "\" has weights" + did_you_mean(step.after, names))
        .at(step.mark)
        .label("the construction goes on after its weights");
  }

  // A loss that the model computes itself belongs to its forward, and so do the names of the model's function.
  void compute_loss(BlockNames& names) {
    const bool trains = run_.in_training();
    const bool own_loss = model_.losses.empty() ? layers_.computes_own_loss(model_.loss) : model_.own_loss;
    const bool in_model = own_loss && !run_.stage;  // a schedule computes it of what the last stage returned
    if (run_.labels && !in_model)
      throw Error("--labels: the model's forward does not compute a loss, so it takes no labels", ErrorKind::usage)
          .at(model_.loss.mark)
          .help(
              "a training loop that computes the loss outside the model also needs the memory of the loss's "
              "operations");
    if ((trains || run_.labels) && in_model) {
      if (!model_.losses.empty())
        compute_losses(names);
      else if (last_many_ != nullptr)
        layers_.add_loss(model_.loss, *last_many_);
      else
        layers_.add_loss(model_.loss);
    }
    // The output object has it.
    if (run_.labels) keep_loss_with_output();
    std::ranges::copy(graph_.kept_in_forward, std::back_inserter(kept_));
    layers_.locals_die(kept_);
    const bool accelerated = uses_accelerate(run_.like) || run_.divides_loss;  // autocast is around the model alone
    if (!trains || accelerated) layers_.end_autocast();
    if (accelerated && run_.autocast) layers_.convert_output();
    if (trains && run_.copies_outputs) layers_.copy_outputs(in_model);
    const bool returns_converted = trains && in_model && run_.returned_loss.has_value();
    if (returns_converted && run_.like == Like::trainer) layers_.divide_loss(false);  // by num_items_in_batch
    if (returns_converted) layers_.convert_loss(*run_.returned_loss);
    graph_.loss_begin = static_cast<std::int32_t>(graph_.forward_ops.size());
    if (trains && run_.stage && !run_.stage->last) {  // backward begins with what the next stage sends
      graph_.loss = graph_.output;
      return;
    }
    if (trains && !in_model) compute_loss_of_output(names);
    if (trains && !accelerated) layers_.end_autocast();
    // Trainer divides by the number of items or of micro-batches; so do accelerator.backward() and Lightning's closure,
    // though that is 1.
    if (!trains) return;
    if ((run_.like == Like::trainer && !returns_converted) || run_.like == Like::lightning) layers_.divide_loss(false);
    if (run_.evaluates) return keep_loss_with_output();
    if (run_.stage) return;  // its schedule divides gradients once they are summed, in place
    if (run_.divides_loss) return layers_.divide_loss_outside();
    if (accelerated || (run_.micro_batches > 1 && run_.like == Like::pytorch && !run_.in_engine))
      layers_.divide_loss(in_model || accelerated);
  }

  void keep_loss_with_output() { graph_.kept_with_output.push_back(std::exchange(graph_.loss, kNone)); }

  void compute_loss_of_output(BlockNames& names) {
    if (model_.losses.empty()) return layers_.add_loss(model_.loss);
    kept_.clear();
    compute_losses(names);
    layers_.locals_die(kept_);
  }

  void compute_losses(BlockNames& names) {
    layers_.begin_losses();
    const TensorId loss = inputs_.latest(body(model_.losses, "", graph_.output, names, false));
    layers_.end_losses(loss, model_.losses.back().mark);
  }

  // Adapters are added to the modules in the order of named_modules().
  void order_adapters() {
    graph_.model_storage.insert(graph_.model_storage.end(), graph_.saved_modules.begin(), graph_.saved_modules.end());
    if (graph_.adapters.empty()) return;
    std::vector<char> made(graph_.tensors.size(), 0);
    for (const TensorId t : std::exchange(graph_.adapters, {})) made[static_cast<std::size_t>(t)] = 1;
    for (const ParameterTensor& p : graph_.parameters)
      if (made[static_cast<std::size_t>(p.tensor)] != 0) graph_.adapters.push_back(p.tensor);
    graph_.model_storage.insert(graph_.model_storage.end() - std::ssize(graph_.saved_modules), graph_.adapters.begin(),
                                graph_.adapters.end());
  }

  struct Stored {  // how much there was of each when a module began
    std::size_t storage = 0, parameters = 0;
  };
  Stored stored() const { return {graph_.model_storage.size(), graph_.parameters.size()}; }

  void order_construction(const std::string& path, const EntryOrder& order, const Body& entries, Stored since) {
    if (order.empty()) return;
    const Range parameters{static_cast<std::int32_t>(since.parameters),
                           static_cast<std::int32_t>(graph_.parameters.size())};
    if (!order.registered.empty()) orders_.push_back({path, &order.registered, parameters});
    const std::vector<std::string> constructed = constructed_entries(order.made, entries);
    order_storage(graph_, since.storage, {path, &constructed, parameters});
  }

  void add_inputs(BlockNames& names) {
    if (run_.batch < 1)
      throw Error("the batch must be at least 1, got " + std::to_string(run_.batch), ErrorKind::usage);
    if (run_.micro_batches < 1 || run_.batch % run_.micro_batches != 0)
      throw Error("a batch of " + std::to_string(run_.batch) + " does not split into " +
                      std::to_string(run_.micro_batches) + " micro-batches of equal size",
                  ErrorKind::usage)
          .help("a rank's batch is --batch divided by the ranks that have samples of their own");
    refuse_trained_weights();
    for (const Input& in : model_.inputs) {
      Shape shape{run_.batch / run_.micro_batches};
      for (const std::int64_t s : in.shape) shape.push_back(s);
      const bool received = run_.stage && !run_.stage->first;  // as the stage before computes it
      const bool of_rank = received && is_floating(in.dtype);
      if (run_.context_ranks > 1 && !of_rank) shape.set(1, checked_mul(shape[1], run_.context_ranks));
      const DType given_as = received ? run_.precision : run_.given_type.value_or(run_.precision);
      const DType dtype = is_floating(in.dtype) ? given_as : in.dtype;
      TensorId given = layers_.new_input(in, shape, dtype);
      if (is_floating(in.dtype) && dtype != run_.precision)
        converted_inputs_.push_back(given = layers_.converted_input(given, run_.precision));
      if (run_.context_ranks > 1 && !received) given = layers_.add_before(context_call_, "context_parallel", given);
      names.give(in.name, given);
    }
    if (!run_.stage || run_.stage->first) return;
    receive_states();
    if (run_.context_ranks > 1) receive_positions();
  }

  // Of one micro-batch, where other inputs are there for the whole step.
  void receive_states() {
    const TensorId states = graph_.inputs.front();
    graph_.buffers[static_cast<std::size_t>(buffer_of(graph_, states))].bytes /= run_.micro_batches;
    // PipelineStage makes a DTensor of what it has received of one (stage.py, _retrieve_recv_activations).
    graph_.tensor(states).distributed = run_.tensor_plan.sequence;
    if (graph_.tensor(states).requires_grad) graph_.leaves.push_back(states);
  }

  // What context_parallel() has cut for the whole step, without memory of its own: stage_context.h.
  void receive_positions() {
    const Shape& states = graph_.tensor(graph_.inputs.front()).shape;
    const std::int64_t parts = run_.tensor_plan.sequence ? run_.tensor_ranks : 1;
    const TensorId positions =
        layers_.new_input(model_.inputs.front(), {states[0], checked_mul(states[1], parts)}, DType::int64);
    graph_.tensor(positions).requires_grad = false;
    graph_.inputs.pop_back();
    graph_.buffers[static_cast<std::size_t>(buffer_of(graph_, positions))].bytes = 0;
    layers_.add_before(context_call_, "context_parallel", positions);
  }

  void refuse_trained_weights() const {
    // bitsandbytes/functional.py, quantize_4bit
    if (is_bitsandbytes(run_.weights) && run_.precision == DType::fp64)
      throw Error("bitsandbytes refuses fp64: \"Blockwise 4bit quantization only supports 16/32-bit floats\"",
                  ErrorKind::usage);
    if (run_.lora && run_.lora->dora && run_.weights != WeightFormat::as_computed)
      throw Error(
          "--lora dora=true with --weights is not planned: each adapter copies its weight as it is computed with",
          ErrorKind::usage)
          .help("gpuplan FILE.py:CALLABLE plans the model as your code makes it");
    if (run_.weights == WeightFormat::as_computed || !run_.in_training()) return;
    if (!is_bitsandbytes(run_.weights))
      throw Error("weights in int4 or fp8 cannot be trained: they are for inference", ErrorKind::usage)
          .help("--weights nf4|fp4|int8 with --lora trains adapters beside weights that bitsandbytes stores");
    // transformers/trainer.py
    if (!run_.lora && !model_.lora)
      throw Error(
          "weights in nf4, fp4 or int8 cannot be trained themselves: \"You cannot perform fine-tuning on purely "
          "quantized models\"",
          ErrorKind::usage)
          .help("--lora r=16 trains adapters beside them");
  }

  // --- names ------------------------------------------------------------------------------------------------------

  static std::string join(const std::string& path, const std::string& name) {
    if (path.empty() || name.empty()) return path.empty() ? name : path;
    std::string joined;
    joined.reserve(path.size() + 1 + name.size());
    return joined.append(path).append(1, '.').append(name);
  }

  // --- structure --------------------------------------------------------------------------------------------------

  // Runs the entries of a list one after the other: `x = entry(x)`. Returns the last value.
  TensorId body(const Body& entries, const std::string& path, TensorId x, BlockNames& names, bool frozen) {
    Current current{x, x};
    for (const Node& node : entries) current = entry(node, path, current, names, frozen);
    return current.active;
  }

  Current entry(const Node& node, const std::string& path, const Current& x, BlockNames& names, bool frozen,
                std::span<const TensorId> besides = {}) {
    if (node.when && *node.when != run_.mode) return left_out(node, path, x, names, frozen, besides);
    const EntryInputs::Given given = inputs_.given_to(node, x, names, Branch::active, besides);
    const BlockNames::Result inactive{node.when ? inputs_.handed_on(node, x, names, Branch::inactive) : kNone, nullptr,
                                      node.when.has_value()};
    const std::string own_path = join(path, node.name);
    const TensorId y = entry_given(node, own_path, given.all(), names, frozen);
    const BlockNames::Result active{y, last_many_};
    if (!node.name.empty()) names.name(own_path, active, node.when ? inactive : active);
    return {y, node.when ? inactive.tensor : y};
  }

  // An entry of the other mode: its weights are there, and it hands on what it was given.
  Current left_out(const Node& node, const std::string& path, const Current& x, BlockNames& names, bool frozen,
                   std::span<const TensorId> besides) {
    const TensorId y = inputs_.handed_on(node, x, names, Branch::active);
    const EntryInputs::Given given = inputs_.given_to(node, x, names, Branch::inactive, besides);
    const std::string own_path = join(path, node.name);
    const LayerWriter::Written before = layers_.written();
    const std::size_t kept = kept_.size(), returned = returned_.size();
    const bool within = inputs_.leave_out(true);
    const TensorId inactive = entry_given(node, own_path, given.all(), names, frozen);
    inputs_.leave_out(within);
    layers_.drop_runs_since(before);
    inputs_.did_not_run({static_cast<TensorId>(before.tensors), static_cast<TensorId>(graph_.tensors.size())});
    kept_.resize(kept);
    returned_.resize(returned);
    if (!node.name.empty()) names.name(own_path, {y, nullptr, true}, {inactive, last_many_});
    last_many_ = nullptr;
    if (node.keep && y != kNone)
      kept_.push_back(y);  // the name that would be its result's is that of what it was given
    return {y, inactive};
  }

  // `path`: the entry's own.
  TensorId entry_given(const Node& node, const std::string& path, std::span<const TensorId> inputs, BlockNames& names,
                       bool frozen) {
    const bool keeps = node.frozen || frozen;
    many_ = nullptr;
    const bool outside = layers_.leave_autocast(false);
    layers_.leave_autocast(outside || !node.autocast);
    const bool without_grad = layers_.leave_grad(false);
    layers_.leave_grad(without_grad || !node.grad);
    const TensorId y =
        std::visit([&](const auto& what) { return run(what, node, path, inputs, names, keeps); }, node.what);
    layers_.leave_autocast(outside);
    layers_.leave_grad(without_grad);
    if (node.keep && many_ != nullptr) kept_.insert(kept_.end(), many_->begin(), many_->end());
    if (node.keep && many_ == nullptr && y != kNone) kept_.push_back(y);
    last_many_ = std::exchange(many_, nullptr);
    return y;
  }

  TensorId run(const LayerCall& call, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               BlockNames&, bool frozen) {
    const std::vector<TensorId>& outputs = layers_.add(call, node, path, inputs, frozen);
    if (outputs.size() > 1) many_ = several_.emplace_back(std::make_unique<std::vector<TensorId>>(outputs)).get();
    for (const LayerBuilder::Returned& r : layers_.take_returned()) {
      kept_.push_back(r.tensor);
      if (r.frames > 0) returned_.push_back(r);
    }
    return outputs.front();
  }

  TensorId run(const Block& block, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               BlockNames&, bool frozen) {
    const std::int64_t place = std::exchange(item_, kNone), item = place == kNone ? number_of(node.name) : place;
    const bool checkpointed = is_checkpointed(node.checkpoint, item, path);
    const bool wrapped = is_wrapped(node.checkpoint, item, path);
    const Stored before = stored();
    Checkpoint part, unit;
    if (wrapped) unit = begin_unit(inputs);
    if (checkpointed) part = begin_checkpoint(node, inputs);
    std::vector<TensorId> given(inputs.begin(), inputs.end());
    if (!given.empty() && run_.tensor_ranks > 1 &&
        tensor_style_of(path, run_.tensor_plan.sequence) == TensorStyle::module)
      given.front() = layers_.add_before(gather_call_, join(path, "gathered"), given.front());
    BlockNames names(path, given);
    const std::size_t kept_before = kept_.size(), returned_before = returned_.size();
    const TensorId beside = std::exchange(beside_, kNone);
    const TensorId y = body(block.body, path, given.empty() ? kNone : given.front(), names, frozen);
    const std::vector<TensorId>* several = last_many_;
    std::vector<TensorId> held(inputs.begin(), inputs.end());
    if (!given.empty() && given.front() != inputs.front()) held.push_back(given.front());
    held.insert(held.end(), kept_.begin() + static_cast<std::ptrdiff_t>(kept_before), kept_.end());
    kept_.resize(kept_before);
    beside_ = beside;
    layers_.locals_die(held);
    if (checkpointed) returned_.resize(returned_before);  // it computes them again
    return_to_caller(returned_before);
    if (checkpointed) end_checkpoint(part, several != nullptr ? std::span<const TensorId>(*several) : std::span(&y, 1));
    if (wrapped) end_unit(unit);
    order_construction(path, block.order, block.body, before);
    many_ = several;
    return y;
  }

  // What the block that ends now returns beside its result becomes a variable of its caller: the one that had what an
  // earlier block returned so, as in `hidden_states, _ = self.self_attn(...)`, `hidden_states, _ =
  // self.encoder_attn(...)` of transformers' decoders.
  void return_to_caller(std::size_t since) {
    std::size_t left = since;
    if (returned_.size() > since && beside_ != kNone) {
      layers_.locals_die(std::span(&beside_, 1));
      std::erase(kept_, beside_);
    }
    for (std::size_t i = since; i < returned_.size(); ++i) {
      kept_.push_back(returned_[i].tensor);
      beside_ = returned_[i].tensor;
      if (returned_[i].frames > 1) returned_[left++] = {returned_[i].tensor, returned_[i].frames - 1};
    }
    returned_.resize(left);
  }

  TensorId run(const Repeat& sequence, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               BlockNames& names, bool frozen) {
    const std::int64_t place = std::exchange(item_, kNone);
    const bool checkpointed = node.checkpoint && is_checkpointed(true, place, path);
    const bool wrapped = node.checkpoint && is_wrapped(true, place, path);
    Checkpoint part, unit;
    if (wrapped) unit = begin_unit(inputs);
    if (checkpointed) part = begin_checkpoint(node, inputs);
    // Each item is given the result of the one before, and all else that the sequence was given.
    Current x;
    if (!inputs.empty()) x = {inputs.front(), inputs.front()};
    const std::span<const TensorId> besides = inputs.empty() ? inputs : inputs.subspan(1);
    std::int64_t position = 0;
    for (const Node& item : sequence.items) {
      item_ = position++;
      x = entry(item, path, x, names, frozen, besides);
      item_ = kNone;
    }
    if (!sequence.loop) layers_.locals_die(inputs);
    if (checkpointed) end_checkpoint(part, std::span(&x.active, 1));
    if (wrapped) end_unit(unit);
    return x.active;
  }

  // --- checkpoints ------------------------------------------------------------------------------------------------

  // A block that is written as `layers.3` is an item of a ModuleList whose items differ: in the window of their
  // attention, say, or in whether they have experts.
  static std::int64_t number_of(std::string_view name) {
    const std::string_view last = name.substr(name.rfind('.') + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), number);
    return error == std::errc() && end == last.data() + last.size() && number >= 0 ? number : kNone;
  }

  // Asked when a block begins. `item`: its place in the sequence that it is an item of, or kNone.
  bool is_checkpointed(bool written, std::int64_t item, const std::string& path) const {
    return !in_checkpoint_ && run_.mode == Mode::train && is_chosen(run_.checkpoint, written, item, path);
  }
  bool is_wrapped(bool written, std::int64_t item, const std::string& path) const {
    return wrapped_ != nullptr && !in_unit_ && is_chosen(*wrapped_, written, item, path);
  }
  static bool is_chosen(const CheckpointConfig& choice, bool written, std::int64_t item, const std::string& path) {
    switch (choice.kind) {
      case CheckpointConfig::Kind::as_written: return written;
      case CheckpointConfig::Kind::none: return false;
      case CheckpointConfig::Kind::block:
      case CheckpointConfig::Kind::op: return item != kNone;
      case CheckpointConfig::Kind::every: return item != kNone && item % choice.every == 0;
      case CheckpointConfig::Kind::glob: return matches_glob(path, choice.glob);
    }
    return false;
  }

  // CheckpointFunction asks of what it is given alone whether there is a gradient (torch/utils/checkpoint.py).
  Checkpoint begin_checkpoint(const Node& node, std::span<const TensorId> inputs) {
    in_checkpoint_ = true;
    const bool reentrant = run_.checkpoint.reentrant || (node.reentrant && node.checkpoint);
    if (reentrant && std::ranges::none_of(inputs, [&](TensorId t) { return graph_.tensor(t).requires_grad; }))
      throw Error(
          "no input of this checkpoint requires a gradient, and with use_reentrant=True its weights then get none")
          .at(node.mark)
          .context(node.where)
          .help("use_reentrant=False, which is checkpoint: true, gives them theirs");
    hold_keywords(inputs);
    Checkpoint part = begin_part(inputs);
    part.reentrant = reentrant;
    part.selective = run_.checkpoint.kind == CheckpointConfig::Kind::op;
    return part;
  }

  // transformers gives a block its hidden states as an argument, and the rest as keywords of a functools.partial
  // (modeling_layers.py, GradientCheckpointingLayer), which the node of a reentrant checkpoint keeps.
  void hold_keywords(std::span<const TensorId> inputs) {
    if (!run_.checkpoint.reentrant) return;
    for (const TensorId t : inputs.subspan(1)) graph_.held_by_nodes.push_back({kNone, t});
  }

  Checkpoint begin_unit(std::span<const TensorId> inputs) {
    in_unit_ = true;
    return begin_part(inputs);
  }

  Checkpoint begin_part(std::span<const TensorId> inputs) {
    return {.ops = {static_cast<std::int32_t>(graph_.forward_ops.size()), 0},
            .nodes = {static_cast<std::int32_t>(graph_.nodes.size()), 0},
            .given = graph_.append_operands(inputs),
            .reentrant = false,
            .returned = {},
            .selective = false};
  }

  void end_checkpoint(Checkpoint part, std::span<const TensorId> returned) {
    in_checkpoint_ = false;
    if (part.reentrant) part.returned = graph_.append_operands(returned);
    end_part(part, graph_.checkpoints);
  }

  void end_unit(const Checkpoint& unit) {
    in_unit_ = false;
    end_part(unit, graph_.wrapped);
  }

  void end_part(Checkpoint part, std::vector<Checkpoint>& parts) const {
    part.ops.end = static_cast<std::int32_t>(graph_.forward_ops.size());
    part.nodes.end = static_cast<std::int32_t>(graph_.nodes.size());
    // A checkpoint without nodes is run once; a frozen unit is gathered for its forward all the same.
    if (part.nodes.begin != part.nodes.end || &parts == &graph_.wrapped) parts.push_back(part);
  }

  TensorId run(const Residual& residual, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               BlockNames& names, bool frozen) {
    if (inputs.empty()) throw Error("a residual needs an input").at(node.mark).context(node.where);
    const TensorId x = inputs.front();
    const auto first_weight = static_cast<std::ptrdiff_t>(graph_.model_storage.size());
    const TensorId out = inputs_.latest(body(residual.body, path, x, names, frozen));
    const auto first_of_shortcut = static_cast<std::ptrdiff_t>(graph_.model_storage.size());
    const TensorId shortcut =
        inputs_.latest(residual.shortcut.empty() ? x : body(residual.shortcut, path, inputs_.latest(x), names, frozen));
    if (residual.shortcut_first) {
      const auto begin = graph_.model_storage.begin();
      std::rotate(begin + first_weight, begin + first_of_shortcut, graph_.model_storage.end());
    }
    LayerCall add{"Add", {}, node.mark};
    if (residual.inplace) add.arguments.push_back({"inplace", {true}, node.mark, node.mark});
    return layers_.join(add, node, path, std::array{out, shortcut});
  }

  TensorId run(const Parallel& parallel, const Node& node, const std::string& path, std::span<const TensorId> inputs,
               BlockNames& names, bool frozen) {
    if (inputs.empty()) throw Error("a parallel needs an input").at(node.mark).context(node.where);
    std::vector<TensorId> results;
    for (const auto& branch : parallel.branches)
      results.push_back(body(branch.body, join(path, branch.name), inputs_.latest(inputs.front()), names, frozen));
    for (TensorId& r : results) r = inputs_.latest(r);
    TensorId y = results.front();
    if (results.size() == 1) {
      // One branch: nothing to join; its input is held while it runs, as a name in the caller's names would.
    } else if (parallel.join == Join::cat) {
      const LayerCall cat{"Cat", {{"dim", {parallel.dim}, node.mark, node.mark}}, node.mark};
      y = layers_.join(cat, node, path, results);
    } else {
      const LayerCall pair{parallel.join == Join::add ? "Add" : "Mul", {}, node.mark};
      for (std::size_t i = 1; i < results.size(); ++i) y = layers_.join(pair, node, path, std::array{y, results[i]});
    }
    layers_.locals_die(inputs);
    return y;
  }

  const Model& model_;
  Graph graph_;
  LayerWriter layers_;
  EntryInputs inputs_;
  const RunConfig& run_;
  const Gpu& gpu_;
  const CheckpointConfig* wrapped_;
  const LayerCall context_call_{"ContextBatch", {}, {}}, gather_call_{"GatherTokens", {}, {}};
  std::vector<TensorId> kept_;  // local variables of the functions that run now
  std::vector<LayerBuilder::Returned> returned_;
  TensorId beside_ = kNone;  // among kept_: what a block returned beside its result to the function that runs now
  std::vector<TensorId> converted_inputs_;
  std::vector<ConstructionOrder> orders_;
  std::int64_t item_ = kNone;
  bool in_checkpoint_ = false, in_unit_ = false;
  const std::vector<TensorId>* many_ = nullptr;       // outputs of the entry just run, when there are several
  const std::vector<TensorId>* last_many_ = nullptr;  // those of the last entry of the body just run
  std::vector<std::unique_ptr<std::vector<TensorId>>> several_;
};

}  // namespace

Graph build_graph(const Model& model, Catalog catalog, const RunConfig& run, const Gpu& gpu,
                  const CheckpointConfig* wrapped) {
  if (planning_work(model, run) > kMostLayersPlanned)
    throw too_much_work(model, std::to_string(run.micro_batches) + " micro-batches run each of them");
  return GraphBuilder(model, catalog, run, gpu, wrapped).build();
}

}  // namespace gpuplan
