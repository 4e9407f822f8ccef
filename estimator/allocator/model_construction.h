// What making a model and its first batch allocates, in PyTorch's order. A part of TrainingLoop.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "estimator/allocator/loop_programs.h"

namespace gpuplan {

template <class Allocator>
class ModelConstruction : protected LoopPrograms<Allocator> {
 protected:
  using Base = LoopPrograms<Allocator>;
  using Base::allocate, Base::allocate_bytes, Base::buffer, Base::buffer_of, Base::index, Base::release,
      Base::release_as, Base::release_block, Base::release_scratch, Base::run_construction_collectives,
      Base::run_optimizer;
  using Base::blocks_, Base::follower_, Base::graph_, Base::optimizer_, Base::run_;

  ModelConstruction(Allocator& allocator, const LoopParts& parts, LoopFollower* follower)
      : Base(allocator, parts, follower) {}

  void build_model() {
    const std::size_t weights = graph_.model_storage.size() - graph_.adapters.size();
    // Temporaries of constructors go when the next weight is there, weights that are replaced by those that they are
    // tied to once all are.
    BufferId going = kNone;
    std::vector<BufferId> replaced;
    for (std::size_t i = 0; i < weights; ++i) {
      const TensorId t = graph_.model_storage[i];
      const BufferId made = buffer_of(t);
      allocate(made);
      if (going != kNone) release(going);
      release_parts_of(t);
      const bool goes = buffer(made).category == Category::scratch;
      const bool weight = graph_.tensors[index(t)].trained;
      going = goes && !weight ? made : kNone;
      if (goes && weight) replaced.push_back(made);
      run_construction_collectives(i + 1);
    }
    if (going != kNone) release(going);
    for (const BufferId b : replaced) release(b);
    initialize_weights();
    add_adapters();
    if (run_.layout == MemoryFormat::channels_last)
      for (const ParameterTensor& p : graph_.parameters)
        if (graph_.tensors[index(p.tensor)].shape.rank() == 4) move_to_new_block(buffer_of(p.tensor));
    run_optimizer(optimizer_.construction, OptimizerPart::construction);
    make_batch();
    if (follower_ != nullptr) follower_->model_is_made();
  }

  // _cudnn_rnn_flatten_weight: the weights are views of one storage now, and theirs go.
  void release_parts_of(TensorId whole) {
    const auto flat = std::ranges::lower_bound(graph_.flat_weights, whole, {}, &FlatWeights::whole);
    if (flat == graph_.flat_weights.end() || flat->whole != whole) return;
    for (const TensorId part : graph_.at(flat->parts)) release(buffer_of(part));
  }

  void initialize_weights() {
    std::vector<BlockId> blocks;
    if (run_.scratch == Scratch::none) return;
    for (const std::int64_t n : graph_.initialization) {
      if (n > 0)
        blocks.push_back(allocate_bytes(n, Category::scratch));
      else
        release_scratch(blocks[index(-n - 1)]);
    }
  }

  // peft makes a layer's two matrices in fp32 and casts them to that layer's type; when it has made all of them, those
  // of half precision are cast back to fp32 (tuners/lora/layer.py, update_layer; tuners_utils.py, cast_adapter_dtype).
  void add_adapters() {
    const bool cast_twice = run_.precision != adapter_type(run_.precision);
    std::vector<BlockId> half;
    for (std::size_t i = 0; i < graph_.adapters.size(); i += 2) {
      const std::array<TensorId, 2> pair{graph_.adapters[i], graph_.adapters[i + 1]};
      for (const TensorId t : pair) allocate(buffer_of(t));
      if (!cast_twice) continue;
      for (const TensorId t : pair) {
        half.push_back(allocate_bytes(buffer(buffer_of(t)).bytes / size_of(DType::fp32) * size_of(run_.precision),
                                      Category::parameters));
        release(buffer_of(t));
      }
    }
    for (std::size_t i = 0; i < half.size(); ++i) {
      allocate(buffer_of(graph_.adapters[i]));
      release_block(half[i], buffer_of(graph_.adapters[i]));
    }
  }

  // tensor.to(memory_format=channels_last): a copy, then the old one goes.
  void move_to_new_block(BufferId id) {
    const BlockId old = blocks_[index(id)];
    allocate(id);
    release_block(old, id);
  }

  // A batch arrives in fp32; a model of another precision has it cast, and the fp32 copy goes after that.
  void make_batch() {
    std::vector<BlockId> originals;
    std::vector<TensorId> casts;
    for (const TensorId t : graph_.inputs) {
      const Tensor& x = graph_.tensors[index(t)];
      if (!is_floating(x.dtype) || x.dtype == DType::fp32) {
        allocate(x.buffer);
        continue;
      }
      originals.push_back(allocate_bytes(
          graph_.buffers[index(x.buffer)].bytes / size_of(x.dtype) * size_of(DType::fp32), Category::inputs));
      casts.push_back(t);
    }
    for (const TensorId t : casts) allocate(buffer_of(t));
    for (BlockId& b : originals) {
      release_as(b, Category::inputs);
    }
    if (run_.layout == MemoryFormat::channels_last)
      for (const TensorId t : graph_.inputs)
        if (graph_.tensors[index(t)].shape.rank() == 4) move_to_new_block(buffer_of(t));
  }
};

}  // namespace gpuplan
