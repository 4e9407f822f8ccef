#include "estimator/distributed/deepspeed_partitioned.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/deepspeed_gradients.h"
#include "estimator/distributed/deepspeed_saving.h"
#include "estimator/distributed/module_calls.h"
#include "estimator/distributed/parameter_coordinator.h"
#include "estimator/distributed/partitioned_construction.h"
#include "estimator/distributed/saved_views.h"
#include "estimator/operators/reduction.h"

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
        scales_(run.precision == DType::fp16),
        save_(run.save),
        ranks_(strategy.ranks()),
        parts_(partitioned_parts(graph, strategy)),
        calls_(module_calls(graph, schedules.front())),
        views_(saved_views(graph, schedules.front())),
        coordinator_(graph, calls_, strategy, writer_) {
    for (std::int32_t* slot : {&reduced_, &flat_, &gradient_, &scaled_, &loss_, &old_norm_, &back_})
      *slot = writer_.new_slot();
    for (std::size_t i = 0; i < parts_.size() + kNormsBeside; ++i) norms_.push_back(writer_.new_slot());
  }

  CollectiveMemory write() {
    writer_.memory().clips_within_step = true;
    write_partitioned_construction(graph_, parts_, strategy_, size_, writer_);
    std::vector<MicroBatch> step{MicroBatch::first};
    if (micro_batches_ > 2) step.push_back(MicroBatch::middle);
    if (micro_batches_ > 1) step.push_back(MicroBatch::last);
    constexpr std::size_t kRounds = 3;  // the first one is followed, and the second one has what it gathered ahead anew
    std::size_t forward = 0;
    for (std::size_t i = 0; i < kRounds; ++i) {
      for (const MicroBatch kind : step) micro_batch(std::min(forward++, kRounds - 1), kind);
      optimizer();
    }
    writer_.memory().saving = writer_.written([&] { save(); });
    return writer_.finish();
  }

 private:
  // --- forward and backward -----------------------------------------------------------------------------------------

  void micro_batch(std::size_t round, MicroBatch kind) {
    last_ = kind == MicroBatch::last || micro_batches_ == 1;
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
    const std::int32_t number = schedule_->with_gradient[gradient];
    const std::int64_t elements = graph_.tensor(graph_.parameters[index(number)].tensor).shape.elements();
    const BufferId buffer = schedules_.front().gradient_of[gradient];
    if (filled_ + elements > strategy_.reduce_bucket_elements && filled_ > 0) reduce();
    if (filled_ + elements <= strategy_.reduce_bucket_elements)
      free_gradient(buffer);
    else
      too_large_ = buffer;
    filled_ += elements;
    waiting_.push_back(number);
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
    std::int64_t elements = 0;
    std::vector<const Shape*> shapes;
    for (const std::int32_t p : waiting_) shapes.push_back(&graph_.tensor(graph_.parameters[index(p)].tensor).shape);
    for (const Shape* shape : shapes) elements += partition_elements(*shape, ranks_) * ranks_;
    std::vector<std::int32_t> paddings;
    const bool copies = shapes.size() > 1 || elements != shapes.front()->elements();
    if (copies) {
      paddings = allocate_paddings(shapes);
      writer_.allocate(reduced_, elements * size_, Category::gradients, stream());
    }
    for (const std::int32_t slot : paddings) writer_.free(slot);
    if (strategy_.offloads) take_to_host();
    if (too_large_ != kNone) free_gradient(std::exchange(too_large_, kNone));
    if (copies) writer_.free(reduced_);
    waiting_.clear();
    filled_ = 0;
  }

  // What partitions lack, rank by rank. Of tens of thousands of ranks it is one block.
  std::vector<std::int32_t> allocate_paddings(std::span<const Shape* const> shapes) {
    constexpr std::int64_t kMost = 100'000;
    std::vector<std::int32_t> paddings;
    const auto pad = [&](std::int64_t elements) {
      if (elements > 0)
        writer_.allocate(paddings.emplace_back(writer_.new_slot()), elements * size_, Category::gradients, stream());
    };
    std::int64_t all = 0;
    for (const Shape* shape : shapes) all += partition_elements(*shape, ranks_) * ranks_ - shape->elements();
    if (ranks_ * std::ssize(shapes) > kMost) {
      pad(all);
      return paddings;
    }
    for (std::int64_t rank = 0; rank < ranks_ && all > 0; ++rank)
      for (const Shape* shape : shapes) {
        const std::int64_t each = partition_elements(*shape, ranks_);
        pad(each - std::clamp<std::int64_t>(shape->elements() - rank * each, 0, each));
      }
    return paddings;
  }

  // partition_grads(), of each partition that has something of its parameter: it has been copied to the host, and comes
  // back. Before the optimizer steps its norm is taken, of so many elements at a time, and it goes there in fp32.
  void take_to_host() {
    constexpr std::int64_t kNormElements = 250'000'000;  // _constant_buffered_norm2
    std::ranges::sort(waiting_);
    for (const std::int32_t p : waiting_) {
      const Shape& shape = graph_.tensor(graph_.parameters[index(p)].tensor).shape;
      const std::int64_t elements = partition_elements(shape, ranks_);
      if (elements * strategy_.rank >= shape.elements()) continue;
      writer_.allocate(back_, elements * size_, Category::gradients, stream());
      if (last_) {
        for (std::int64_t done = 0; done < elements; done += kNormElements)
          take_norm(std::min(elements - done, kNormElements));
        norms_of_gradients_.push_back(writer_.new_slot());
        writer_.allocate(norms_of_gradients_.back(), kFp64Bytes, Category::gradients, stream());
        writer_.allocate(flat_, elements * kFp32Bytes, Category::gradients, stream());
        writer_.free(flat_);
      }
      writer_.free(back_);
    }
  }

  void take_norm(std::int64_t elements) {
    writer_.allocate(flat_, elements * kFp64Bytes, Category::gradients, stream());
    for (const std::int64_t bytes :
         reduction_scratch({elements}, 1, DType::fp64, DType::fp64, gpu_, ReductionKind::mean)) {
      writer_.allocate(gradient_, bytes, Category::scratch, stream());
      writer_.free(gradient_);
    }
    writer_.free(flat_);
  }

  // Trainer saves the model by save_16bit_model(), module after module, and all else by save_checkpoint(). What is too
  // small to be divided goes before both and comes back.
  void save() {
    if (save_ == SavedCheckpoint::model || save_ == SavedCheckpoint::full) {
      coordinator_.release_all();
      coordinator_.gather_each_module();
      coordinator_.gather_persistent();
    }
    if (save_ == SavedCheckpoint::sharded || save_ == SavedCheckpoint::full) {
      coordinator_.release_all();
      write_barrier(writer_);
      write_tag_validation(writer_);
      coordinator_.gather_persistent();
      write_barrier(writer_);
    }
  }

  std::int32_t stream() const { return strategy_.overlaps_reductions ? kScatterStream : 0; }

  // --- optimizer ----------------------------------------------------------------------------------------------------

  void optimizer() {
    if (strategy_.offloads) return step_on_host();
    writer_.memory().before_optimizer = writer_.written([&] {
      coordinator_.release_all();
      if (scales_) look_for_overflow();
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

  // has_overflow(): torch.isinf() compares absolute values, and torch.isnan() each value with itself.
  void look_for_overflow() {
    std::int64_t elements = 0;
    for (const PartitionedPart& part : parts_) elements += part.elements();
    writer_.allocate(flat_, elements * size_, Category::gradients, stream());
    for (int i = 0; i < 2; ++i) {
      writer_.allocate(gradient_, elements, Category::gradients, stream());
      writer_.free(flat_);
      writer_.allocate(back_, 1, Category::gradients, stream());
      writer_.free(gradient_);
      writer_.free(back_);
    }
  }

  void step_on_host() {
    writer_.memory().before_optimizer = writer_.written([&] {
      coordinator_.release_all();
      for (std::size_t i = 0; i < kNormsBeside; ++i) writer_.allocate(norms_[i], kFp64Bytes, Category::gradients);
      for (std::size_t i = 0; i < kNormsBeside; ++i) writer_.free(norms_[i]);  // a square, and the sum
    });
    writer_.memory().after_optimizer = writer_.written([&] {
      for (const std::int32_t slot : norms_of_gradients_) writer_.free(slot);
      coordinator_.gather_persistent();
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
  std::int64_t micro_batches_, size_;
  bool scales_;  // the loss
  SavedCheckpoint save_;
  std::int64_t ranks_;
  std::vector<PartitionedPart> parts_;
  ModuleCalls calls_;
  std::vector<SavedView> views_;
  CollectiveWriter writer_;
  ParameterCoordinator coordinator_;
  std::int32_t reduced_ = 0, flat_ = 0, gradient_ = 0, scaled_ = 0, loss_ = 0, old_norm_ = 0, back_ = 0;
  std::vector<std::int32_t> norms_of_gradients_;  // slots, of a step that the host takes
  std::vector<std::int32_t> norms_;               // slots: one a part, and kNormsBeside
  bool last_ = false;                             // micro-batch of a step
  std::int64_t filled_ = 0;
  std::vector<std::int32_t> waiting_;  // parameters whose gradients are in the bucket
  BufferId too_large_ = kNone;         // one that it has no room for
};

}  // namespace

CollectiveMemory partitioned_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                                    const RunConfig& run, const Gpu& gpu) {
  return PartitionedWriter(graph, schedules, strategy, run, gpu).write();
}

StateBytes partitioned_states(const Graph& graph, const Strategy& strategy, const RunConfig& run,
                              std::int64_t optimizer_bytes) {
  StateBytes states;
  std::int64_t trained = 0;
  const std::int64_t parts = strategy.offloads_parameters ? 0 : 1, whole = strategy.ranks();
  for (const ParameterTensor& p : graph.parameters) {
    const Tensor& t = graph.tensor(p.tensor);
    const std::int64_t part = partition_elements(t.shape, strategy.ranks());
    states.parameters = checked_add(states.parameters, checked_mul(parts * part, size_of(t.dtype)));
    if (whole > 1 && t.shape.elements() <= strategy.partition.persistence_elements)
      states.parameters = checked_add(states.parameters, checked_mul(part * whole, size_of(t.dtype)));
    if (p.trainable) trained = checked_add(trained, part);
  }
  if (strategy.offloads) return states;
  states.gradients = checked_mul(trained, size_of(run.precision));
  states.optimizer_state = checked_add(optimizer_bytes, checked_mul(trained, kFp32Bytes));
  return states;
}

}  // namespace gpuplan
