// What a few layers do to the model that they are a part of, beside registering parameters and buffers: what its
// constructors make, move and drop, and what it keeps when a layer's forward has ended.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "estimator/graph/layer.h"

namespace gpuplan {

/// Of the layer that `builder` lowers: ModelBuilder(b).constant(...).
class ModelBuilder {
 public:
  explicit ModelBuilder(LayerBuilder& builder) : b_(builder) {}

  // --- construction
  /// A weight that exists only while the model is built: another one replaces it, which existed before if it is `tied`.
  void replaced_parameter(const Shape& shape, bool tied);
  /// The constructor moves these weights, made last, into one storage of so many bytes, each to its offset in elements;
  /// nothing where they are in one.
  void flatten(std::span<const TensorId> weights, std::span<const std::int64_t> offsets, std::int64_t bytes);
  /// A tensor that the module's constructor makes and drops once its next weight or buffer is there.
  void constructor_temporary(const Shape& shape, DType dtype);
  /// What initialising weights allocates and frees once the model's are there.
  void initialize(const ScratchProgram& program);
  /// nn.init.trunc_normal_ of the weights, by name, of all layers of this type so far, when the model was built.
  /// From 2.9 on it rejects samples by masks, which take memory for a moment (torch/nn/init.py).
  void initialize_truncated(std::string_view layer_type, std::string_view weight);

  // --- what stays between calls
  /// A tensor that the model's code made once and keeps, neither a parameter nor a registered buffer.
  TensorId constant(const Shape& shape, DType dtype);
  /// Whether a layer before has registered a buffer of this name.
  bool has_buffer(std::string_view name) const;
  /// Stays until the model's forward returns.
  void keep_in_forward(TensorId t) { b_.graph_.kept_in_forward.push_back(t); }
  /// Stays until its backward returns.
  void keep_in_backward(TensorId t) { b_.graph_.kept_in_backward.push_back(t); }
  /// What stands for a frozen parameter once its module has converted it, in its first forward: itself, where it has
  /// the type.
  TensorId converted_for_good(TensorId parameter, DType dtype);
  /// Keys or values that stay between the steps of a generation.
  TensorId cache(const Shape& shape, DType dtype);
  /// A buffer that every step replaces by a new tensor, or by this one.
  void replace_buffer(TensorId buffer);
  void replace_buffer(TensorId buffer, TensorId by);

  // --- what outlives the layer's forward
  /// Input `i` of the model: a causal model's labels are its tokens.
  TensorId input(int i) const { return b_.graph_.inputs[static_cast<std::size_t>(i)]; }
  /// Of which the model's own loss makes its targets.
  TensorId labels(int i) const {
    const std::optional<StageOfRun>& stage = b_.run().stage;  // the last one is given them beside the hidden states
    return b_.graph_.labels = stage && !stage->first ? b_.graph_.inputs.back() : input(i);
  }
  /// The output object holds this, too.
  void keep_with_output(TensorId t);
  /// LayerBuilder::context() of all layers to come.
  void give_context(const LayerBuilder::Context& context) { b_.context_ = context; }
  /// The output object has no output, and nothing but this.
  void returns_loss_alone(TensorId loss) { b_.graph_.output = loss; }
  /// A node that this call makes holds it until the graph goes.
  void hold_with_graph(TensorId t) { b_.graph_.held_by_nodes.push_back({kNone, t}); }
  /// t.requires_grad_(True) of what no node made: a leaf, which gets a gradient of its own.
  void require_gradient(TensorId t);
  /// A second result of the module's forward. It stays alive as a local variable of this forward and of the forwards of
  /// the `frames` blocks around it (`hidden_states, _ = self.self_attn(...)`).
  void return_beside(TensorId t, int frames) { b_.returned_.push_back({t, frames}); }

 private:
  LayerBuilder& b_;
};

}  // namespace gpuplan
