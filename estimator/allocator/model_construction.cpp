#include "estimator/allocator/model_construction.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "estimator/graph/parameter_order.h"
#include "estimator/operators/scratch.h"
#include "estimator/operators/scratch_program.h"

namespace gpuplan {
namespace {

// _cudnn_rnn_flatten_weight: the weights are views of one storage now, and theirs go.
void release_parts_of(TensorId whole, const Graph& graph, PlacedBlocks& blocks) {
  const auto flat = std::ranges::lower_bound(graph.flat_weights, whole, {}, &FlatWeights::whole);
  if (flat == graph.flat_weights.end() || flat->whole != whole) return;
  for (const TensorId part : graph.at(flat->parts)) blocks.release(buffer_of(graph, part));
}

class WeightMaker {
 public:
  WeightMaker(const Graph& graph, PlacedBlocks& blocks, CollectivePrograms& collectives)
      : graph_(graph), blocks_(blocks), collectives_(collectives) {}

  void make_next() {
    const TensorId t = graph_.model_storage[made_++];
    const BufferId made = buffer_of(graph_, t);
    if (!is_constant(graph_, t)) blocks_.allocate(made);
    if (going_ != kNone) blocks_.release(going_);
    release_parts_of(t, graph_, blocks_);
    const bool goes = blocks_.buffer(made).category == Category::scratch;
    const bool weight = graph_.tensor(t).trained;
    going_ = goes && !weight ? made : kNone;
    if (goes && weight) replaced_.push_back(made);
    if (made_ < graph_.model_storage.size() || graph_.initialization.empty()) collectives_.run_construction(made_);
  }

  /// Temporaries of constructors go when the next weight is there, weights that are replaced by those that they are
  /// tied to once all are.
  void finish() {
    if (going_ != kNone) blocks_.release(going_);
    going_ = kNone;
    for (const BufferId b : replaced_) blocks_.release(b);
    replaced_.clear();
  }

 private:
  const Graph& graph_;
  PlacedBlocks& blocks_;
  CollectivePrograms& collectives_;
  std::size_t made_ = 0;
  BufferId going_ = kNone;
  std::vector<BufferId> replaced_;
};

void make_weights(const Graph& graph, bool with_scratch, PlacedBlocks& blocks, CollectivePrograms& collectives) {
  WeightMaker weights(graph, blocks, collectives);
  collectives.run_construction(0);
  const auto placed = static_cast<std::size_t>(std::ranges::count(graph.initialization, kResultAllocation));
  const std::size_t added = graph.adapters.size() + graph.saved_modules.size();
  const std::size_t first = graph.model_storage.size() - added - placed;
  for (std::size_t i = 0; i < first; ++i) weights.make_next();
  if (placed == 0) weights.finish();
  std::vector<BlockId> made;
  for (const std::int64_t action : graph.initialization) {
    if (action == kResultAllocation)
      weights.make_next();
    else if (action == kEmptiesCache)
      blocks.empty_cache();
    else if (with_scratch && allocates(action))
      made.push_back(blocks.allocate_scratch(action));
    else if (with_scratch)
      blocks.release_scratch(made[freed_by(action)]);
  }
  if (!graph.initialization.empty() && added == 0) collectives.run_construction(graph.model_storage.size());
  weights.finish();
}

std::int64_t bytes_in(const Graph& graph, TensorId adapter, DType precision) {
  return graph.buffers[index(buffer_of(graph, adapter))].bytes / size_of(DType::fp32) * size_of(precision);
}

// DoraLinearLayer.update_layer: the norms of W + s B A, where the magnitudes begin; fp16 is computed in fp32. Of an
// adapter's three tensors A is two before the magnitudes, B one.
class MagnitudeMaker {
 public:
  MagnitudeMaker(const RankStep& rank, std::size_t i, PlacedBlocks& blocks)
      : graph_(rank.graph), run_(rank.run), gpu_(rank.gpu), i_(i), precision_(rank.run.precision), blocks_(blocks) {}

  void begin() {
    const Shape& a = graph_.tensor(graph_.adapters[i_ - 2]).shape;
    const Shape& b = graph_.tensor(graph_.adapters[i_ - 1]).shape;
    const std::int64_t elements = a[1] * b[0];
    const bool wide = precision_ == DType::fp16;
    if (wide) make(a.elements() * 4);
    if (wide) make(b.elements() * 4);
    make(elements * (wide ? 4 : size_of(precision_)));
    use_workspace();
    if (wide) {
      BlockId product = made_.back();
      made_.pop_back();
      make(elements * size_of(precision_));
      blocks_.release_scratch(product);
    }
    BlockId scaled = blocks_.allocate_scratch(elements * size_of(precision_));
    make(elements * size_of(precision_));
    blocks_.release_scratch(scaled);
  }
  void end() {
    for (BlockId& b : made_) blocks_.release_scratch(b);
  }

 private:
  void use_workspace() {
    if (run_.scratch == Scratch::none || keeps_cublas_workspace(run_.pytorch)) return;
    BlockId workspace = blocks_.allocate_scratch(cublas_workspace_bytes(gpu_));
    blocks_.release_scratch(workspace);
  }
  void make(std::int64_t bytes) { made_.push_back(blocks_.allocate_scratch(bytes)); }

  const Graph& graph_;
  const RunConfig& run_;
  const Gpu& gpu_;
  std::size_t i_;
  DType precision_;
  PlacedBlocks& blocks_;
  std::vector<BlockId> made_;
};

// Of a model on the GPU peft makes matrices on the host, moves them there in the layer's type, and casts those of half
// precision to fp32 when all are there (tuners_utils.py, _move_adapter_to_device_of_base_layer, cast_adapter_dtype).
void move_adapters(const RankStep& rank, PlacedBlocks& blocks) {
  const Graph& graph = rank.graph;
  const DType precision = rank.run.precision;
  const bool dora = rank.run.lora->dora;
  std::vector<BlockId> half;
  const bool cast = precision != adapter_type(precision);
  for (std::size_t i = 0; i < graph.adapters.size(); ++i) {
    MagnitudeMaker maker(rank, i, blocks);
    if (dora && i % 3 == 2) maker.begin();
    if (cast)
      half.push_back(blocks.allocate_bytes(bytes_in(graph, graph.adapters[i], precision), Category::parameters));
    else
      blocks.allocate(buffer_of(graph, graph.adapters[i]));
    if (dora && i % 3 == 2) maker.end();
  }
  for (std::size_t i = 0; i < half.size(); ++i) {
    const BufferId b = buffer_of(graph, graph.adapters[i]);
    blocks.allocate(b);
    blocks.release_held(half[i], b);
  }
  for (const TensorId t : graph.saved_modules) blocks.allocate(buffer_of(graph, t));
}

// Of a model that is made on the GPU, as within torch.device("cuda"), a layer's two matrices are made there in fp32 and
// cast to the layer's type (tuners/lora/layer.py, update_layer), and back.
void add_adapters(const Graph& graph, DType precision, PlacedBlocks& blocks) {
  const bool cast_twice = precision != adapter_type(precision);
  std::vector<BlockId> half;
  for (std::size_t i = 0; i < graph.adapters.size(); i += 2) {
    const std::array<BufferId, 2> pair{buffer_of(graph, graph.adapters[i]), buffer_of(graph, graph.adapters[i + 1])};
    for (const BufferId b : pair) blocks.allocate(b);
    if (!cast_twice) continue;
    for (const std::size_t k : {i, i + 1}) {
      half.push_back(blocks.allocate_bytes(bytes_in(graph, graph.adapters[k], precision), Category::parameters));
      blocks.release(buffer_of(graph, graph.adapters[k]));
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

// A batch arrives in fp32; a model of another precision has it cast, and the fp32 copy goes after that. What another
// rank sends comes later.
void make_batch(const Graph& graph, std::span<const RankStage> stages, PlacedBlocks& blocks) {
  std::vector<BlockId> originals;
  std::vector<BufferId> casts;
  for (const TensorId t : graph.inputs) {
    const Tensor& x = graph.tensor(t);
    if (std::ranges::find(stages, x.buffer, &RankStage::states) != stages.end()) continue;
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
  const Graph& graph = loop.rank->graph;
  const RunConfig& run = loop.rank->run;
  const bool channels_last = run.layout == MemoryFormat::channels_last;
  make_weights(graph, run.scratch != Scratch::none, blocks, collectives);
  if (run.lora)
    move_adapters(*loop.rank, blocks);
  else
    add_adapters(graph, run.precision, blocks);
  if (graph.adapters.size() + graph.saved_modules.size() > 0) collectives.run_construction(graph.model_storage.size());
  if (channels_last)
    for (const TensorId t : in_applied_order(graph)) move_images(graph, t, blocks);
  optimizer.run(loop.rank->optimizer.construction, OptimizerPart::construction);
  optimizer.run_unobserved(loop.rank->optimizer.trainer.begin);
  make_batch(graph, loop.rank->stages, blocks);
  if (channels_last)
    for (const TensorId t : graph.inputs) move_images(graph, t, blocks);
  if (loop.observer != nullptr) loop.observer->model_is_made();
}

}  // namespace gpuplan
