#include "estimator/distributed/deepspeed_partitioned.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/deepspeed_gradients.h"
#include "estimator/distributed/module_calls.h"
#include "estimator/distributed/parameter_coordinator.h"
#include "estimator/distributed/saved_views.h"

namespace gpuplan {
namespace {

constexpr std::int32_t kScatterStream = 2;
constexpr std::size_t kNormsBeside = 2;                 // of all parts, and the same without the loss's scale
constexpr std::int64_t kFp32Bytes = 4, kFp64Bytes = 8;  // bytes of fp32 and fp64

class PartitionedWriter {
 public:
  PartitionedWriter(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                    const RunConfig& run, const Gpu& gpu)
      : graph_(graph),
        schedules_(schedules),
        strategy_(strategy),
        gpu_(gpu),
        micro_batches_(run.micro_batches),
        size_(size_of(run.precision)),
        ranks_(strategy.ranks()),
        parts_(partitioned_parts(graph, strategy)),
        calls_(module_calls(graph, schedules.front())),
        views_(saved_views(graph, schedules.front())),
        coordinator_(graph, calls_, strategy, writer_) {
    for (std::int32_t* slot : {&bucket_, &reduced_, &flat_, &gradient_, &scaled_, &loss_, &old_norm_})
      *slot = writer_.new_slot();
    for (std::size_t i = 0; i < parts_.size() + kNormsBeside; ++i) norms_.push_back(writer_.new_slot());
  }

  CollectiveMemory write() {
    writer_.memory().clips_within_step = true;
    construct();
    std::vector<MicroBatch> step{MicroBatch::first};
    if (micro_batches_ > 2) step.push_back(MicroBatch::middle);
    if (micro_batches_ > 1) step.push_back(MicroBatch::last);
    constexpr std::size_t kRounds = 3;  // the first one is followed, and the second one has what it gathered ahead anew
    std::size_t forward = 0;
    for (std::size_t i = 0; i < kRounds; ++i) {
      for (const MicroBatch kind : step) micro_batch(std::min(forward++, kRounds - 1), kind);
      optimizer();
    }
    return writer_.finish();
  }

 private:
  // --- construction -------------------------------------------------------------------------------------------------

  // What is trained is cut out of each parameter, and laid together by way of the host (defragment()).
  void construct() {
    const Range events = writer_.written([&] {
      const std::vector<std::int32_t> cut = cut_parameters();
      const std::int32_t flags = writer_.new_slot(), overflow = writer_.new_slot();
      writer_.allocate(flags, 1, Category::buffers);  // inf_or_nan_tracker, and _dummy_overflow_buf
      writer_.allocate(overflow, 4, Category::buffers);
      for (const std::int32_t slot : cut) writer_.free(slot);
      writer_.empty_cache();
      writer_.allocate(writer_.new_slot(), all_elements() * size_, Category::parameters);
      make_masters();
      writer_.allocate(bucket_, strategy_.reduce_bucket_elements * size_, Category::gradients);
      writer_.allocate(writer_.new_slot(), all_elements() * size_, Category::gradients);
      gather_each();
    });
    writer_.memory().construction.push_back(
        {Phase::start, static_cast<std::int32_t>(graph_.model_storage.size()), events});
  }

  std::vector<std::int32_t> cut_parameters() {
    std::vector<std::int32_t> trained;
    for (const ParameterTensor& p : graph_.parameters) {
      const Tensor& t = graph_.tensor(p.tensor);
      const std::int32_t slot = writer_.new_slot();
      writer_.allocate(slot, partition_elements(t.shape, ranks_) * size_of(t.dtype), Category::parameters);
      writer_.free_buffer(t.buffer);
      if (p.trainable) trained.push_back(slot);
    }
    return trained;
  }

  // _create_fp32_partitions() and initialize_optimizer_states(): each is converted, while the last one's name still
  // holds it, and cloned; then a gradient of zeros.
  void make_masters() {
    std::int64_t largest = 0;
    std::int32_t last = kNone;
    for (const PartitionedPart& part : parts_) {
      const std::int64_t bytes = part.elements() * kFp32Bytes;
      largest = std::max(largest, bytes);
      const std::int32_t converted = writer_.new_slot();
      writer_.allocate(converted, bytes, Category::optimizer_state);
      if (last != kNone) writer_.free(last);
      last = converted;
      writer_.allocate(writer_.new_slot(), bytes, Category::optimizer_state);
    }
    writer_.free(last);
    writer_.allocate(gradient_, largest, Category::gradients);
    writer_.free(gradient_);
  }

  // create_reduce_and_remove_grad_hooks()
  void gather_each() {
    for (const ParameterTensor& p : graph_.parameters) {
      const Tensor& t = graph_.tensor(p.tensor);
      if (!p.trainable) continue;
      writer_.allocate(flat_, partition_elements(t.shape, ranks_) * ranks_ * size_of(t.dtype), Category::parameters);
      writer_.free(flat_);
    }
  }

  std::int64_t all_elements() const {
    std::int64_t all = 0;
    for (const PartitionedPart& part : parts_) all += part.elements();
    return all;
  }

  // --- forward and backward -----------------------------------------------------------------------------------------

  void micro_batch(std::size_t round, MicroBatch kind) {
    schedule_ = &schedules_[kind == MicroBatch::first ? 0 : schedules_.size() - 1];
    writer_.of_micro_batch(kind, round);
    writer_.memory().rounds[round][static_cast<std::size_t>(kind)].clear();
    const std::vector<ScheduledOp>& ops = schedule_->ops;
    const auto begin =
        static_cast<std::int32_t>(std::ranges::find(ops, Phase::backward, &ScheduledOp::phase) - ops.begin());
    const auto end = static_cast<std::int32_t>(ops.size());
    writer_.at(Phase::forward, 0, [&] { coordinator_.begin_forward(); });
    writer_.at(Phase::backward, begin, [&] {  // engine.backward scales the loss
      const std::int64_t bytes = size_of(graph_.tensor(graph_.loss).dtype);
      writer_.allocate(scaled_, bytes, Category::activation_gradients);
      writer_.allocate(loss_, bytes, Category::activation_gradients);
    });
    for (const std::size_t i : arrivals(*schedule_))
      writer_.at(Phase::backward, schedule_->gradient_arrives[i], [&] { take(i); });
    follow_modules();
    writer_.at(Phase::backward, end, [&] {
      reduce();
      coordinator_.end_backward();
      writer_.free(scaled_);
      writer_.free(loss_);
    });
  }

  void follow_modules() {
    auto view = views_.begin();
    const auto end_views = [&](std::int32_t until) {
      for (; view != views_.end() && view->step <= until; ++view)
        writer_.at(Phase::backward, view->step, [&] { coordinator_.end_view(view->parameter); });
    };
    const auto save_views = [&](bool in_checkpoint) {
      for (const SavedView& v : views_)
        if (v.in_checkpoint == in_checkpoint) coordinator_.save_view(v.parameter);
    };
    bool forward = true;
    save_views(false);
    for (const ModuleCall& call : calls_.calls) {
      if (std::exchange(forward, call.phase != Phase::backward) && call.phase == Phase::backward) save_views(true);
      if (call.phase == Phase::backward) end_views(call.step);
      writer_.at(call.phase, call.step, [&] { coordinator_.follow(call); });
    }
    end_views(static_cast<std::int32_t>(schedule_->ops.size()));
  }

  // reduce_independent_p_g_buckets_and_remove_grads: into the bucket, on the stream of reductions.
  void take(std::size_t gradient) {
    const Tensor& t = graph_.tensor(graph_.parameters[index(schedule_->with_gradient[gradient])].tensor);
    const std::int64_t elements = t.shape.elements();
    const BufferId buffer = schedules_.front().gradient_of[gradient];
    if (filled_ + elements > strategy_.reduce_bucket_elements && filled_ > 0) reduce();
    if (filled_ + elements <= strategy_.reduce_bucket_elements)
      free_gradient(buffer);
    else
      too_large_ = buffer;
    filled_ += elements;
    waiting_.push_back(&t.shape);
  }

  void free_gradient(BufferId buffer) {
    if (strategy_.overlaps_reductions)
      writer_.free_buffer_later(buffer);
    else
      writer_.free_buffer(buffer);
  }

  // reduce_scatter_coalesced(): what is not divisible is padded, rank by rank. One alone that needs no padding is
  // reduced where it lies.
  void reduce() {
    if (waiting_.empty()) return;
    std::vector<std::int32_t> paddings;
    std::int64_t elements = 0;
    for (const Shape* shape : waiting_) elements += partition_elements(*shape, ranks_) * ranks_;
    const bool copies = waiting_.size() > 1 || elements != waiting_.front()->elements();
    if (copies) {
      for (std::int64_t rank = 0; rank < ranks_; ++rank)
        for (const Shape* shape : waiting_) {
          const std::int64_t each = partition_elements(*shape, ranks_);
          const std::int64_t has = std::clamp<std::int64_t>(shape->elements() - rank * each, 0, each);
          if (has < each)
            writer_.allocate(paddings.emplace_back(writer_.new_slot()), (each - has) * size_, Category::gradients,
                             stream());
        }
      writer_.allocate(reduced_, elements * size_, Category::gradients, stream());
    }
    for (const std::int32_t slot : paddings) writer_.free(slot);
    if (too_large_ != kNone) free_gradient(std::exchange(too_large_, kNone));
    if (copies) writer_.free(reduced_);
    waiting_.clear();
    filled_ = 0;
  }

  std::int32_t stream() const { return strategy_.overlaps_reductions ? kScatterStream : 0; }

  // --- optimizer ----------------------------------------------------------------------------------------------------

  void optimizer() {
    writer_.memory().before_optimizer = writer_.written([&] {
      coordinator_.release_all();
      for (const PartitionedPart& part : parts_) write_norms(part.each, gpu_, writer_);
      for (const std::int32_t slot : norms_) writer_.allocate(slot, kFp64Bytes, Category::gradients);
    });
    writer_.memory().part_steps.clear();
    for (const PartitionedPart& part : parts_)
      writer_.memory().part_steps.push_back(
          {writer_.written([&] { take_gradient(part); }), writer_.written([&] { writer_.free(gradient_); })});
    writer_.memory().after_optimizer = writer_.written([&] {
      coordinator_.gather_persistent();
      for (const std::int32_t slot : norms_) writer_.free(slot);
      writer_.free(old_norm_);
      writer_.allocate(old_norm_, kFp64Bytes, Category::gradients);  // _global_grad_norm, until the next one is there
    });
  }

  // _prepare_fp32_grad_for_sub_group(); a flat tensor of one is that one.
  void take_gradient(const PartitionedPart& part) {
    if (part.each.size() > 1) writer_.allocate(flat_, part.elements() * size_, Category::gradients);
    writer_.allocate(gradient_, part.elements() * kFp32Bytes, Category::gradients);
    writer_.free(flat_);
  }

  const Graph& graph_;
  std::span<const Schedule> schedules_;
  const Schedule* schedule_ = nullptr;  // of the micro-batch
  const Strategy& strategy_;
  const Gpu& gpu_;
  std::int64_t micro_batches_, size_, ranks_;
  std::vector<PartitionedPart> parts_;
  ModuleCalls calls_;
  std::vector<SavedView> views_;
  CollectiveWriter writer_;
  ParameterCoordinator coordinator_;
  std::int32_t bucket_ = 0, reduced_ = 0, flat_ = 0, gradient_ = 0, scaled_ = 0, loss_ = 0, old_norm_ = 0;
  std::vector<std::int32_t> norms_;  // slots: one a part, and kNormsBeside
  std::int64_t filled_ = 0;
  std::vector<const Shape*> waiting_;  // of gradients in the bucket
  BufferId too_large_ = kNone;         // one that it has no room for
};

}  // namespace

std::int64_t PartitionedPart::elements() const { return std::accumulate(each.begin(), each.end(), std::int64_t{0}); }

std::vector<PartitionedPart> partitioned_parts(const Graph& graph, const Strategy& strategy) {
  std::vector<PartitionedPart> parts;
  bool full = true;
  for (const ParameterTensor& p : graph.parameters) {
    if (!p.trainable) continue;
    if (full) parts.emplace_back();
    parts.back().each.push_back(partition_elements(graph.tensor(p.tensor).shape, strategy.ranks()));
    full = parts.back().elements() >= strategy.partition.part_elements;
  }
  return parts;
}

CollectiveMemory partitioned_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                                    const RunConfig& run, const Gpu& gpu) {
  return PartitionedWriter(graph, schedules, strategy, run, gpu).write();
}

StateBytes partitioned_states(const Graph& graph, const Strategy& strategy, const RunConfig& run,
                              std::int64_t optimizer_bytes) {
  StateBytes states;
  std::int64_t trained = 0;
  for (const ParameterTensor& p : graph.parameters) {
    const Tensor& t = graph.tensor(p.tensor);
    const std::int64_t part = partition_elements(t.shape, strategy.ranks());
    states.parameters = checked_add(states.parameters, checked_mul(part, size_of(t.dtype)));
    if (t.shape.elements() <= strategy.partition.persistence_elements)
      states.parameters = checked_add(states.parameters, checked_mul(part * strategy.ranks(), size_of(t.dtype)));
    if (p.trainable) trained = checked_add(trained, part);
  }
  states.gradients = checked_mul(trained, size_of(run.precision));
  states.optimizer_state = checked_add(optimizer_bytes, checked_mul(trained, kFp32Bytes));
  return states;
}

}  // namespace gpuplan
