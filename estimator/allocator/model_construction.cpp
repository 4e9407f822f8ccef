#include "estimator/allocator/model_construction.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "estimator/operators/scratch_program.h"

namespace gpuplan {
namespace {

// _cudnn_rnn_flatten_weight: the weights are views of one storage now, and theirs go.
void release_parts_of(TensorId whole, const Graph& graph, PlacedBlocks& blocks) {
  const auto flat = std::ranges::lower_bound(graph.flat_weights, whole, {}, &FlatWeights::whole);
  if (flat == graph.flat_weights.end() || flat->whole != whole) return;
  for (const TensorId part : graph.at(flat->parts)) blocks.release(buffer_of(graph, part));
}

// Temporaries of constructors go when the next weight is there, weights that are replaced by those that they are tied
// to once all are.
void make_weights(const Graph& graph, PlacedBlocks& blocks, CollectivePrograms& collectives) {
  const std::size_t weights = graph.model_storage.size() - graph.adapters.size();
  BufferId going = kNone;
  std::vector<BufferId> replaced;
  for (std::size_t i = 0; i < weights; ++i) {
    const TensorId t = graph.model_storage[i];
    const BufferId made = buffer_of(graph, t);
    blocks.allocate(made);
    if (going != kNone) blocks.release(going);
    release_parts_of(t, graph, blocks);
    const bool goes = blocks.buffer(made).category == Category::scratch;
    const bool weight = graph.tensor(t).trained;
    going = goes && !weight ? made : kNone;
    if (goes && weight) replaced.push_back(made);
    collectives.run_construction(i + 1);
  }
  if (going != kNone) blocks.release(going);
  for (const BufferId b : replaced) blocks.release(b);
}

void initialize_weights(const Graph& graph, PlacedBlocks& blocks) {
  std::vector<BlockId> made;
  for (const std::int64_t action : graph.initialization) {
    if (allocates(action))
      made.push_back(blocks.allocate_scratch(action));
    else
      blocks.release_scratch(made[freed_by(action)]);
  }
}

// peft makes a layer's two matrices in fp32 and casts them to that layer's type; when it has made all of them, those
// of half precision are cast back to fp32 (tuners/lora/layer.py, update_layer; tuners_utils.py, cast_adapter_dtype).
void add_adapters(const Graph& graph, DType precision, PlacedBlocks& blocks) {
  const bool cast_twice = precision != adapter_type(precision);
  std::vector<BlockId> half;
  for (std::size_t i = 0; i < graph.adapters.size(); i += 2) {
    const std::array<BufferId, 2> pair{buffer_of(graph, graph.adapters[i]), buffer_of(graph, graph.adapters[i + 1])};
    for (const BufferId b : pair) blocks.allocate(b);
    if (!cast_twice) continue;
    for (const BufferId b : pair) {
      half.push_back(blocks.allocate_bytes(blocks.buffer(b).bytes / size_of(DType::fp32) * size_of(precision),
                                           Category::parameters));
      blocks.release(b);
    }
  }
  for (std::size_t i = 0; i < half.size(); ++i) {
    const BufferId b = buffer_of(graph, graph.adapters[i]);
    blocks.allocate(b);
    blocks.release_held(half[i], b);
  }
}

void move_images(const Graph& graph, TensorId t, PlacedBlocks& blocks) {
  if (graph.tensor(t).shape.rank() == 4) blocks.move(buffer_of(graph, t));
}

// A batch arrives in fp32; a model of another precision has it cast, and the fp32 copy goes after that.
void make_batch(const Graph& graph, PlacedBlocks& blocks) {
  std::vector<BlockId> originals;
  std::vector<BufferId> casts;
  for (const TensorId t : graph.inputs) {
    const Tensor& x = graph.tensor(t);
    if (!is_floating(x.dtype) || x.dtype == DType::fp32) {
      blocks.allocate(x.buffer);
      continue;
    }
    originals.push_back(blocks.allocate_bytes(
        graph.buffers[index(x.buffer)].bytes / size_of(x.dtype) * size_of(DType::fp32), Category::inputs));
    casts.push_back(x.buffer);
  }
  for (const BufferId b : casts) blocks.allocate(b);
  for (BlockId& b : originals) blocks.release_as(b, Category::inputs);
}

}  // namespace

void build_model(const RunningLoop& loop, PlacedBlocks& blocks, OptimizerPrograms& optimizer,
                 CollectivePrograms& collectives) {
  const Graph& graph = loop.rank.graph;
  const RunConfig& run = loop.rank.run;
  const bool channels_last = run.layout == MemoryFormat::channels_last;
  make_weights(graph, blocks, collectives);
  if (run.scratch != Scratch::none) initialize_weights(graph, blocks);
  add_adapters(graph, run.precision, blocks);
  if (channels_last)
    for (const ParameterTensor& p : graph.parameters) move_images(graph, p.tensor, blocks);
  optimizer.run(loop.rank.optimizer.construction, OptimizerPart::construction);
  make_batch(graph, blocks);
  if (channels_last)
    for (const TensorId t : graph.inputs) move_images(graph, t, blocks);
  if (loop.observer != nullptr) loop.observer->model_is_made();
}

}  // namespace gpuplan
