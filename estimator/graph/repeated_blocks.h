// The blocks of a transformer, and most of a convolutional network's, are called as another one was before: the same
// entries, written in the same place, on inputs of the same shapes. What the first call appended to the graph is
// appended once more with other ids and names, without lowering its layers again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/graph/parameter_order.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// Two calls that are alike append the same, but for ids and names.
struct BlockCall {
  const Block& block;  // must live as long as the graph is built
  const std::string& path;
  std::span<const TensorId> inputs;
  bool frozen = false;
  bool checkpointed = false, in_checkpoint = false, reentrant = false;
};

class RepeatedBlocks {
 public:
  RepeatedBlocks(Graph& graph, std::vector<ConstructionOrder>& orders) : graph_(graph), orders_(orders) {}

  /// How much there is of everything that a call appends to.
  struct Extent {
    std::int32_t buffers = 0, tensors = 0, operands = 0, attributes = 0, forward_ops = 0, backward_ops = 0, saved = 0,
                 locals = 0, strides = 0, edges = 0, nodes = 0, layers = 0, parameters = 0, named_buffers = 0,
                 model_storage = 0, initial_values = 0, checkpoints = 0, casts = 0, orders = 0;
    std::size_t others = 0;  // what a call that can be repeated leaves alone
    std::size_t looks = 0;   // LayerBuilder::context_dependent()
  };
  Extent extent(std::size_t looks) const;

  struct Result {
    TensorId first = kNone;
    std::vector<TensorId> several;                // all outputs of the last entry, where there is more than one
    std::pair<std::int32_t, std::int32_t> casts;  // of Graph::autocast_casts: those that were appended
  };
  /// Where a call like this one was remembered, appends what it would; nullptr where none was. Throws Error when the
  /// graph gets too large.
  const Result* repeat(const BlockCall& call, std::size_t looks);
  /// `before`: when the call began.
  void remember(const BlockCall& call, const Extent& before, std::size_t looks, TensorId first,
                std::span<const TensorId> several);
  /// What was appended has been taken back.
  void forget() { known_.clear(); }

 private:
  struct Known {
    const Block* block = nullptr;
    std::string path;
    std::vector<TensorId> inputs;
    std::vector<BufferId> buffers;  // of the inputs
    bool frozen = false, checkpointed = false, in_checkpoint = false, reentrant = false;
    Extent begin, end;
    std::vector<TensorId> storage;                        // of model_storage, which is sorted later
    std::vector<std::pair<TensorId, TensorId>> replaced;  // by operations in place: Tensor::replaced_by of each
    Result result;
    bool checked = false;  // refers_to_own()
  };
  struct Ids;

  bool alike(const Known& known, const BlockCall& call) const;
  bool may_repeat(const BlockCall& call) const;
  bool have_own_storages(std::span<const TensorId> inputs) const;
  Known& place_to_remember();
  bool refers_to_own(const Known& known) const;
  void append_tensors(const Ids& ids);
  void append_operations(const Ids& ids);
  void append_backward(const Ids& ids);
  void append_modules(const Ids& ids);

  Graph& graph_;
  std::vector<ConstructionOrder>& orders_;
  std::vector<Known> known_;
  std::size_t oldest_ = 0;
  Result result_;
};

}  // namespace gpuplan
