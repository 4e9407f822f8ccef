// Appends the calls of a model to a Graph as its layers, each lowering itself.
#pragma once

#include <array>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "estimator/graph/layer_lowering.h"
#include "estimator/graph/lora_targets.h"

namespace gpuplan {

/// Every function throws Error with the place in the spec.
class LayerWriter {
 public:
  /// `lora` must outlive the writer; null: no adapters. `head`: the path of the layer that makes the model's output.
  LayerWriter(Graph& graph, Catalog catalog, const RunConfig& run, const Gpu& gpu, const Lora* lora, std::string head)
      : graph_(graph),
        catalog_(catalog),
        run_(run),
        lowering_(graph, run, gpu),
        lora_(lora, head),
        head_(std::move(head)) {}

  TensorId new_input(const Input& input, const Shape& shape, DType dtype);
  /// What the training loop does to an input before it calls the model.
  TensorId add_before(const LayerCall& call, const std::string& name, TensorId input);
  TensorId converted_input(TensorId input, DType dtype);
  /// A layer that `node` asks for; returns what it hands on, until the next call.
  const std::vector<TensorId>& add(const LayerCall& call, const Node& node, const std::string& path,
                                   std::span<const TensorId> inputs, bool frozen);
  /// Every target of `lora:` was a layer of the model.
  void check_targets() const { lora_.check_all_taken(graph_.layers); }
  /// The functional op that joins a residual or parallel, as if it were written in the spec.
  TensorId join(const LayerCall& call, const Node& node, const std::string& path, std::span<const TensorId> inputs);
  /// `outputs`: of the model's last entry, for a loss that takes several.
  void add_loss(const LayerCall& call, std::span<const TensorId> outputs = {});
  /// Between these, add() takes losses, too; one with `tie:` has the targets of that one. `loss`: what they came to, a
  /// number.
  void begin_losses() { among_losses_ = true; }
  void end_losses(TensorId loss, const SourceMark& mark);
  /// Whether the model computes this loss within its forward.
  bool computes_own_loss(const LayerCall& call) { return definition(call, true).in_model; }
  /// loss / micro_batches, in the step's own code. `in_model`: the model's output names the undivided loss, too.
  void divide_loss(bool in_model);
  /// Of Accelerate around FSDP2 (RunConfig::divides_loss), outside of every module: the type that the model returns its
  /// loss in, and the division.
  void convert_loss(DType type);
  void divide_loss_outside();
  /// accelerate's convert_outputs_to_fp32, around the forward of a model under autocast.
  void convert_output();
  /// DDP's _DDPSink, which copies all that the model returns with a gradient; `loss`: its loss, too.
  void copy_outputs(bool loss);
  void end_autocast();
  bool leave_autocast(bool leave) { return lowering_.leave_autocast(leave); }
  bool leave_grad(bool leave) { return lowering_.leave_grad(leave); }
  /// How much the graph has: what is added after it can be dropped again.
  struct Written {
    std::size_t tensors, layers, ops, nodes, checkpoints, replaced, kept, held, leaves, of_nodes, cleared, casts,
        storage;
  };
  Written written() const;
  /// Takes back what was run since then; parameters and buffers stay, constants go.
  void drop_runs_since(const Written& then);
  std::vector<LayerBuilder::Returned> take_returned() { return lowering_.take_returned(); }
  /// The caller's frame keeps what it gave to a function until that returns.
  void locals_die(std::span<const TensorId> held);
  void leave_modules(std::size_t ops, std::size_t nodes);
  LayerId last_layer() const;  // kNone where there is none yet

 private:
  struct Tie {
    LayerId layer, first;  // who shares, and whose weights
  };
  void adapt(const std::string& path, const SourceMark& mark, TensorId x, bool stored);
  LoweredCall begin(const LayerCall& call, const LayerDef& def, const std::string& path);
  void finish(LayerId id, std::span<const TensorId> inputs, TensorId output);
  void hold_inputs(LayerId id, std::span<const TensorId> inputs);
  bool has_weights(LayerId id) const;  // of its own: parameters or buffers
  LayerId tied_layer(const Node& node, const std::string& path);
  LayerId first_of_ties(const std::string& path, const Tie& tie, const Node& node) const;
  LayerId loss_with_targets(const Node& node) const;
  const LayerDef& definition(const LayerCall& call, bool loss);
  Layer& layer(LayerId id) { return graph_.layers[static_cast<std::size_t>(id)]; }

  Graph& graph_;
  Catalog catalog_;
  const RunConfig& run_;
  LayerLowering lowering_;
  LoraTargets lora_;
  std::string head_;
  std::array<const LayerDef*, 8> recent_{};  // definitions found last: few types make up most models
  std::size_t next_recent_ = 0;
  bool among_losses_ = false;
  std::vector<TensorId> adapted_;                          // what the adapter handed on
  std::unordered_map<std::string, LayerId> with_weights_;  // by path, of the first `listed_` layers
  std::size_t listed_ = 0;
  std::unordered_map<std::string, Tie> ties_;  // by the layer's path
};

}  // namespace gpuplan
