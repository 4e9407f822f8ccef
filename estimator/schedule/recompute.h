// Activation checkpointing in backward: torch.utils.checkpoint. In forward a checkpointed part keeps what it was given;
// the first of its autograd nodes that unpacks a saved tensor runs it again, up to the last tensor that is saved (early
// stop), and each node lets go of what it needed as without a checkpoint. With use_reentrant=True one node of the outer
// graph stands for it: it runs all of the part again and a backward through that, and holds what the part was given and
// returned, and the gradients of the latter, until it ends. Within torch.autograd.graph.save_on_cpu() what it was given
// waits on the host, for it is saved outside of the checkpoint's own hooks (_CheckpointFrame.save_inputs), and is
// copied back first.
#pragma once

#include <span>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/step_writer.h"

namespace gpuplan {

class Recompute {
 public:
  /// `given_on_host`: what checkpoints were given waits there (RunConfig::offload_saved).
  Recompute(const Graph& graph, StepWriter& writer, bool given_on_host);

  /// Before a node runs; nodes come in descending order. Appends the forward steps where it is the first one that
  /// needs them.
  void enter(NodeId id);
  /// The node entered last belongs to a checkpoint.
  bool inside() const { return inside_; }
  /// The storage that stands for a forward one in the node entered last.
  BufferId buffer(BufferId forward) const {
    return inside_ && again_[static_cast<std::size_t>(forward)] != kNone ? again_[static_cast<std::size_t>(forward)]
                                                                         : forward;
  }
  /// What the checkpoint was given, and what a policy has kept that was not asked for, where this node is the last to
  /// hold them; else nothing. Until the next call.
  std::span<const TensorId> leave(NodeId id);
  /// The node entered last is of a part that reenters autograd, and `t` is what this returned.
  bool returns(TensorId t) const;
  /// What such a part returned, where this node is its last one; else nothing.
  std::span<const TensorId> returned(NodeId id) const;

 private:
  bool saves(NodeId id) const;
  std::int32_t early_stop(const Checkpoint& c) const;
  void run(const Checkpoint& c);
  void copy_back(const Checkpoint& c);
  bool is_there(std::span<const TensorId> kept, const Checkpoint& c, TensorId t) const;

  const Graph& graph_;
  StepWriter& writer_;
  std::vector<BufferId> again_;  // by forward buffer; empty without checkpoints
  std::vector<TensorId> left_;   // of leave()
  std::size_t at_;               // checkpoints below this one are still to come
  bool given_on_host_;
  bool inside_ = false, done_ = false;
};

/// What the checkpoint was given that torch.autograd.graph.save_on_cpu() around it takes to the host: tensors that are
/// passed by position, which are saved (torch.utils.checkpoint, _CheckpointFrame.save_inputs; before PyTorch 2.15
/// _NoopSaveInputs). Others stay with the closure: transformers passes a layer its states by position and masks,
/// positions and rotary tables by keyword. So it is the first, and of the others what comes with a gradient.
std::vector<TensorId> given_to_host(const Graph& graph, const Checkpoint& c);

/// torchtitan's selective activation checkpointing (distributed/activation_checkpoint.py), through
/// create_selective_checkpoint_contexts(): the results of scaled dot product attention and of every other aten::mm are
/// kept, the first of them and not the second. One char an operation of the part.
std::vector<char> kept_by_policy(const Graph& graph, const Checkpoint& c);

/// The storages that a checkpoint's part allocates, which nothing keeps for backward: one char a buffer.
std::vector<char> recomputed_buffers(const Graph& graph);

}  // namespace gpuplan
