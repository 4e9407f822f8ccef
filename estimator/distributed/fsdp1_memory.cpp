// Rules: torch/distributed/fsdp/_runtime_utils.py and _flat_param.py of PyTorch 2.15, checked against recorded traces.
#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/data_parallel_memory.h"
#include "estimator/distributed/flat_parameters.h"
#include "estimator/distributed/fsdp1_construction.h"
#include "estimator/schedule/micro_batch_schedules.h"

namespace gpuplan {
namespace {

// _init_streams.
constexpr std::int32_t kPreUnshardStream = 1, kUnshardStream = 2, kPostBackwardStream = 3, kSumStream = 4;

// A wrapped module with the slots of its blocks.
struct FlatBlocks {
  const FsdpUnit* of;
  const FlatParameter* flat;
  std::int32_t there = 0, cast = 0, whole = 0;   // the shard on the GPU and in param_dtype, and what is gathered of it
  std::int32_t gradient = 0, more = 0;           // as autograd makes it of the parameters', and one that is added to it
  std::int32_t converted = 0, padded = 0;        // the same in reduce_dtype, and as the ranks divide it
  std::int32_t low = 0, reduced = 0, added = 0;  // the rank's part, in reduce_dtype; as it is stored; added to that
  std::vector<std::int32_t> zeros{};             // gradients of the paddings
  struct Sum {
    std::int32_t slot, step;
    std::int64_t bytes;
  };
  std::vector<Sum> sums{};  // of the gradients of parameters that are used more than once
  bool is_root() const { return of->path.empty(); }
};

// What is not compared: frozen parameters, and those that get no gradient.
void refuse_without_gradient(const Graph& graph, const Schedule& schedule) {
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const ParameterTensor& p = graph.parameters[i];
    if (gradient_place(schedule, static_cast<std::int32_t>(i)) != kNone) continue;
    throw Error("FSDP1 is planned where every parameter gets a gradient, and " +
                    std::string(graph.layers[index(p.layer)].name) + (p.trainable ? " gets none" : " is frozen"),
                ErrorKind::usage)
        .help("leave out version=1, which plans FSDP2; gpuplan shadow --gpus N runs the script itself");
  }
}

class Fsdp1Writer {
 public:
  Fsdp1Writer(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy, const RunConfig& run)
      : graph_(graph),
        schedule_(schedules.front()),
        strategy_(strategy),
        run_(run),
        units_(fsdp_units(graph, schedule_, strategy)),
        flat_(flat_parameters(graph, units_, strategy, run)) {
    refuse_without_gradient(graph, schedule_);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      FlatBlocks& b = blocks_.emplace_back(FlatBlocks{.of = &units_[u], .flat = &flat_[u]});
      for (std::int32_t* slot :
           {&b.there, &b.cast, &b.whole, &b.gradient, &b.more, &b.converted, &b.padded, &b.low, &b.reduced, &b.added})
        *slot = writer_.new_slot();
      for (std::size_t i = 0; i < flat_[u].paddings.size(); ++i) b.zeros.push_back(writer_.new_slot());
      for (const SummedGradient& sum : summed_gradients(schedule_, flat_[u]))
        b.sums.push_back({writer_.new_slot(), sum.step, schedule_.buffers[index(sum.gradient)].bytes});
    }
    scratch_ = writer_.new_slot();
  }

  CollectiveMemory write() {
    buffers_ = write_flat_construction(graph_, units_, flat_, strategy_, writer_);
    const bool several = run_.micro_batches > 1, waits = several && strategy_.reduces_last;
    pass(MicroBatch::first, 0, {.adds = false, .reduces = !waits, .begins = true});
    pass(MicroBatch::first, 1, {.adds = false, .reduces = !waits});
    if (several) pass(MicroBatch::middle, 1, {.adds = true, .reduces = !waits});
    if (several) pass(MicroBatch::last, 1, {.adds = true, .reduces = true});
    if (!strategy_.flat->original_parameters) writer_.memory().zero_grad = writer_.written([&] { zero_gradients(); });
    // FullyShardedDataParallel.clip_grad_norm_ keeps a zero for ranks that have no gradient (_zero_scalar).
    writer_.memory().first_clip =
        writer_.written([&] { writer_.allocate(writer_.new_slot(), size_of(DType::fp32), Category::gradients); });
    return writer_.finish();
  }

 private:
  struct Pass {
    bool adds;            // gradients of micro-batches before are there
    bool reduces;         // not within no_sync()
    bool begins = false;  // the first forward of all
  };

  void pass(MicroBatch kind, std::size_t round, const Pass& pass) {
    pass_ = pass;
    writer_.of_micro_batch(kind, round);
    forward();
    backward();
  }

  // The first forward finds out in which order modules are called.
  bool gathers_ahead() const { return strategy_.flat->gathers_ahead && !pass_.begins; }
  bool shares() const { return strategy_.shards() > 1; }
  bool casts(const FlatBlocks& b) const { return b.flat->stored != b.flat->computed; }
  static bool is_empty(const FlatBlocks& b) { return b.flat->elements == 0; }
  static std::int64_t shard_bytes(const FlatBlocks& b, DType type) { return b.flat->shard_elements * size_of(type); }
  std::int64_t whole_bytes(const FlatBlocks& b, DType type) const { return strategy_.shards() * shard_bytes(b, type); }

  // init_flat_param_attributes: what takes its memory later is made, and emptied again.
  void begin(const FlatBlocks& b) {
    const auto make = [&](std::int64_t bytes) {
      writer_.allocate(scratch_, bytes, Category::parameters);
      writer_.free(scratch_);
    };
    if (casts(b)) make(shard_bytes(b, b.flat->computed));
    if (shares()) make(whole_bytes(b, b.flat->computed));
    if (shares() && casts(b)) make(whole_bytes(b, b.flat->stored));
  }

  // _cast_buffers_to_dtype_and_device.
  void cast_buffers() {
    for (const FlatBuffer& buffer : buffers_) {
      writer_.allocate(writer_.new_slot(), buffer.elements * size_of(*strategy_.flat->buffer_type), Category::buffers);
      writer_.free(buffer.slot);
    }
  }

  // optimizer.zero_grad() has flat gradients go. Those of use_orig_params are views, and what they are of goes when the
  // next forward begins (_reset_flat_param_grad_info_if_needed). What replicas summed was not made on that stream.
  void zero_gradients() {
    for (const FlatBlocks& b : blocks_) {
      if (shares() && strategy_.replicas > 1 && b.flat->reduced == b.flat->stored)
        writer_.free_later(b.reduced);
      else
        writer_.free(b.reduced);
      if (!shares()) writer_.free_later(b.gradient);
    }
  }

  // --- parameters ---------------------------------------------------------------------------------------------------

  // pre_unshard() and unshard().
  void unshard(const FlatBlocks& b) {
    if (is_empty(b)) return;
    if (!shares()) return writer_.unless_there(casts(b) ? b.cast : b.there, [&] { prepare(b); });
    if (keeps_shard(b)) writer_.unless_there(b.there, [&] { prepare(b); });
    writer_.unless_there(b.whole, [&] {
      if (!keeps_shard(b)) prepare(b);
      writer_.allocate(b.whole, whole_bytes(b, b.flat->computed), Category::parameters, kUnshardStream);
      if (!keeps_shard(b)) writer_.free_later(casts(b) ? b.cast : b.there);
    });
  }
  // What came from the host: with use_orig_params the original parameters are views of it until the module's forward or
  // backward ends.
  bool keeps_shard(const FlatBlocks& b) const {
    return strategy_.offloads && strategy_.flat->original_parameters && !casts(b);
  }
  void prepare(const FlatBlocks& b) {
    if (casts(b)) writer_.allocate(b.cast, shard_bytes(b, b.flat->computed), Category::parameters, kPreUnshardStream);
    if (!strategy_.offloads) return;
    writer_.allocate(b.there, shard_bytes(b, b.flat->stored), Category::parameters, kPreUnshardStream);
    if (casts(b)) writer_.free(b.there);
  }

  // post_reshard() gives back what NO_SHARD has computed with.
  void reshard_forward(const FlatBlocks& b) {
    if (!shares()) return reshard_whole(b);
    if (!b.is_root() && strategy_.reshard_after_forward) writer_.free_later(b.whole);
    if (keeps_shard(b)) writer_.free_later(b.there);
  }
  // In a hook, whose stream is that on which autograd first saw the parameters: where they were gathered.
  void reshard_backward(const FlatBlocks& b) {
    if (!shares()) return reshard_whole(b);
    if (!pass_.reduces && !strategy_.reshard_after_forward) return;
    writer_.free(b.whole);
    if (keeps_shard(b)) writer_.free_later(b.there);
  }
  void reshard_whole(const FlatBlocks& b) {
    writer_.free_later(b.cast);
    writer_.free_later(b.there);
  }

  // --- forward ------------------------------------------------------------------------------------------------------

  void forward() {
    writer_.at(Phase::forward, 0, [&] {
      if (pass_.begins) {
        cast_buffers();
        for (const FlatBlocks& b : blocks_)
          if (!is_empty(b)) begin(b);
      }
      if (!pass_.begins && !pass_.adds && strategy_.flat->original_parameters) zero_gradients();
    });
    for (std::size_t u = 0; u < blocks_.size(); ++u) {
      const FlatBlocks& b = blocks_[u];
      writer_.at(Phase::forward, b.of->forward.begin, [&] {
        unshard(b);
        if (gathers_ahead() && u + 1 < blocks_.size()) unshard(blocks_[u + 1]);
      });
      writer_.at(Phase::forward, b.of->forward.end, [&] { reshard_forward(b); });
    }
  }

  // --- backward -----------------------------------------------------------------------------------------------------

  // Modules in the order in which their forwards end, the root last (_exec_order_utils.py); the one before is fetched.
  void fetch_before(std::size_t unit) {
    const std::size_t before = unit == 0 ? blocks_.size() - 1 : unit - 1;
    if (before > 0) unshard(blocks_[before]);
  }

  void backward() {
    using Prefetch = FlatSettings::Prefetch;
    const std::int32_t end = backward_returns(schedule_);
    for (std::size_t n = 0; n < blocks_.size(); ++n) {
      const std::size_t u = n == 0 ? 0 : blocks_.size() - n;
      const FlatBlocks& b = blocks_[u];
      if (is_empty(b)) continue;
      writer_.at(Phase::backward, b.of->backward.begin, [&] {
        unshard(b);
        if (strategy_.flat->prefetch == Prefetch::before) fetch_before(u);
      });
      for (const FlatBlocks::Sum& sum : b.sums)
        writer_.at(Phase::backward, sum.step,
                   [&] { writer_.allocate(sum.slot, sum.bytes, Category::gradients, kUnshardStream); });
      if (u == 0) continue;
      const FsdpUnit& through = *blocks_[gathers_ahead() ? u - 1 : u].of;
      writer_.at(Phase::backward, through.backward.end, [&] { after_backward(u); });
    }
    if (!is_empty(blocks_[0])) writer_.at(Phase::backward, blocks_[0].of->backward.end, [&] { after_backward(0); });
    if (strategy_.offloads) writer_.at(Phase::backward, end, [&] { zero_gradients(); });
  }

  // SplitWithSizesBackward makes one gradient of those of the parameters, on the stream of the gather, and zeros for
  // paddings; then AccumulateGrad and its hook, _post_backward_hook(). It runs when all that autograd has seen since
  // the views were made is through: the root's is the last, and where a module is gathered ahead, that before it is
  // through first.
  void after_backward(std::size_t unit) {
    const FlatBlocks& b = blocks_[unit];
    const bool sums = pass_.adds && (strategy_.reduces_last || !shares());  // with what is whole
    for (std::size_t i = 0; i < b.zeros.size(); ++i)
      writer_.allocate(b.zeros[i], b.flat->paddings[i] * size_of(b.flat->computed), Category::gradients,
                       kUnshardStream);
    writer_.allocate(sums ? b.more : b.gradient, b.flat->elements * size_of(b.flat->computed), Category::gradients,
                     kUnshardStream);
    for (const std::int32_t zeros : b.zeros) writer_.free(zeros);
    for (const FlatBlocks::Sum& sum : b.sums) writer_.free(sum.slot);
    for (const FlatParameter::Within& w : b.flat->parameters)
      if (const std::int32_t place = gradient_place(schedule_, w.parameter); place != kNone)
        writer_.free_buffer_later(schedule_.gradient_of[index(place)]);
    if (sums && shares())
      writer_.free(b.more);
    else if (sums)  // NO_SHARD's is added on the current stream, on which its parameters were first seen
      writer_.free_later(b.more);
    reshard_backward(b);
    if (strategy_.flat->prefetch == FlatSettings::Prefetch::after && unit > 0) fetch_before(unit);
    if (pass_.reduces)
      reduce(b);
    else if (strategy_.flat->original_parameters && !pass_.adds)
      show_whole_gradients(b);
  }

  // _use_unsharded_grad_views: a gradient of another shape or type than its parameter takes the place of one that is
  // made for it.
  void show_whole_gradients(const FlatBlocks& b) {
    if (!shares()) return;
    for (const FlatParameter::Within& w : b.flat->parameters) {
      const std::int64_t own = own_elements(*b.flat, w, strategy_.shard());
      const Shape& shape = graph_.tensor(graph_.parameters[index(w.parameter)].tensor).shape;
      if (own == 0 || (!casts(b) && shape.rank() == 1 && own == w.elements)) continue;
      writer_.allocate(scratch_, own * size_of(b.flat->stored), Category::gradients, kUnshardStream);
      writer_.free(scratch_);
    }
  }

  // _reduce_grad_no_shard sums in place.
  void reduce_whole(const FlatBlocks& b) {
    const FlatParameter& flat = *b.flat;
    const bool converts = flat.reduced != flat.computed, restores = flat.reduced != flat.stored;
    if (converts)
      writer_.allocate(restores ? b.low : b.reduced, flat.elements * size_of(flat.reduced), Category::gradients,
                       kPostBackwardStream);
    if (restores)
      writer_.allocate(b.reduced, flat.elements * size_of(flat.stored), Category::gradients, kPostBackwardStream);
    writer_.free(b.low);
    if (converts || restores) writer_.free_later(b.gradient);
  }

  void reduce(const FlatBlocks& b) {
    if (!shares()) return reduce_whole(b);
    const FlatParameter& flat = *b.flat;
    const bool converts = flat.reduced != flat.computed, restores = flat.reduced != flat.stored;
    if (converts)
      writer_.allocate(b.converted, flat.elements * size_of(flat.reduced), Category::gradients, kPostBackwardStream);
    if (flat.shard_elements * strategy_.shards() != flat.elements)
      writer_.allocate(b.padded, whole_bytes(b, flat.reduced), Category::gradients, kPostBackwardStream);
    const bool adds = pass_.adds && !strategy_.reduces_last, sums = strategy_.replicas > 1;
    const std::int32_t kept = adds ? b.added : b.reduced;
    writer_.allocate(restores ? b.low : kept, shard_bytes(b, flat.reduced), Category::gradients, kPostBackwardStream);
    if (restores)
      writer_.allocate(kept, shard_bytes(b, flat.stored), Category::gradients, sums ? kSumStream : kPostBackwardStream);
    if (sums)
      writer_.free_later(b.low);
    else
      writer_.free(b.low);
    if (adds && sums && !restores)  // the sum's stream has used it
      writer_.free_later(b.added);
    else if (adds)
      writer_.free(b.added);
    writer_.free(b.padded);
    writer_.free(b.converted);
    writer_.free_later(b.gradient);
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Strategy& strategy_;
  const RunConfig& run_;
  CollectiveWriter writer_;
  std::vector<FsdpUnit> units_;
  std::vector<FlatParameter> flat_;
  std::vector<FlatBlocks> blocks_;
  std::vector<FlatBuffer> buffers_;  // that are cast
  Pass pass_{};
  std::int32_t scratch_ = 0;  // slot
};

}  // namespace

CollectiveMemory fsdp1_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                              const RunConfig& run) {
  return Fsdp1Writer(graph, schedules, strategy, run).write();
}

}  // namespace gpuplan
