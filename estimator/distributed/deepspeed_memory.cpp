#include "estimator/distributed/deepspeed_memory.h"

#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/deepspeed_gradients.h"
#include "estimator/distributed/deepspeed_saving.h"

namespace gpuplan {
namespace {

constexpr std::int32_t kReductionStream = 1;
constexpr std::int64_t kMaster = 4;  // bytes of fp32

std::int64_t elements_of(const Graph& graph, std::int32_t number) {
  return graph.tensor(graph.parameters[index(number)].tensor).shape.elements();
}

class DeepSpeedWriter {
 public:
  DeepSpeedWriter(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                  const RunConfig& run, const Gpu& gpu)
      : graph_(graph),
        schedules_(schedules),
        micro_batches_(run.micro_batches),
        save_(run.save),
        strategy_(strategy),
        gpu_(gpu),
        size_(size_of(run.precision)),
        part_(flat_part(graph, strategy.ranks(), strategy.rank)) {
    for (std::int32_t* slot : {&flat_, &clone_, &master_, &bucket_, &reduced_, &kept_, &padding_, &gradient_, &scaled_,
                               &loss_, &scale_, &new_norm_, &old_norm_, &other_bucket_, &more_})
      *slot = writer_.new_slot();
  }

  CollectiveMemory write() {
    writer_.memory().clips_within_step = true;
    construct();
    micro_batch(MicroBatch::first, micro_batches_ == 1);
    if (micro_batches_ > 1) micro_batch(MicroBatch::middle, false);
    if (micro_batches_ > 1) micro_batch(MicroBatch::last, true);
    if (save_ == SavedCheckpoint::sharded || save_ == SavedCheckpoint::full)
      writer_.memory().saving = writer_.written([&] {
        write_barrier(writer_, true);
        write_tag_validation(writer_);
        write_barrier(writer_);
      });
    if (strategy_.offloads) {
      step_on_host();
      return writer_.finish();
    }
    writer_.memory().before_optimizer = writer_.written([&] { take_gradient(); });
    writer_.memory().after_optimizer = writer_.written([&] {
      writer_.free(gradient_);
      writer_.free(scale_);
      writer_.free(new_norm_);
      writer_.free(old_norm_);
      writer_.allocate(old_norm_, kMaster, Category::gradients);  // _global_grad_norm, until the next one is there
    });
    return writer_.finish();
  }

 private:
  void construct() {
    const Range events = writer_.written([&] {
      writer_.allocate(flat_, part_.all_elements * size_, Category::parameters);
      for (const ParameterTensor& p : graph_.parameters)
        if (p.trainable) writer_.free_buffer(graph_.tensor(p.tensor).buffer);
      writer_.allocate(clone_, part_.elements * size_, Category::parameters);
      if (strategy_.offloads) {
        writer_.free(clone_);
        // temp_grad_buffer_for_gpu_offload, which gradients of earlier micro-batches come back into
        writer_.allocate(writer_.new_slot(), largest_parameter() * size_, Category::gradients);
        return;
      }
      writer_.allocate(master_, part_.elements * kMaster, Category::optimizer_state);
      writer_.free(clone_);
      writer_.allocate(gradient_, part_.elements * kMaster, Category::gradients);  // initialize_optimizer_states
      writer_.free(gradient_);
    });
    writer_.memory().construction.push_back(
        {Phase::start, static_cast<std::int32_t>(graph_.model_storage.size()), events});
  }

  std::int64_t largest_parameter() const {
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < graph_.parameters.size(); ++i)
      if (graph_.parameters[i].trainable)
        largest = std::max(largest, elements_of(graph_, static_cast<std::int32_t>(i)));
    return largest;
  }

  void micro_batch(MicroBatch kind, bool last) {
    first_ = kind == MicroBatch::first;
    last_ = last;
    schedule_ = &schedules_[first_ ? 0 : schedules_.size() - 1];
    keeps_ = false;
    writer_.of_micro_batch(kind);
    backward();
  }

  void backward() {
    const std::vector<ScheduledOp>& ops = schedule_->ops;
    const auto begin = std::ranges::find(ops, Phase::backward, &ScheduledOp::phase) - ops.begin();
    const auto end = static_cast<std::int32_t>(ops.size());
    writer_.at(Phase::backward, static_cast<std::int32_t>(begin), [&] {  // engine.backward scales the loss
      const std::int64_t bytes = size_of(graph_.tensor(graph_.loss).dtype);
      writer_.allocate(scaled_, bytes, Category::activation_gradients);
      writer_.allocate(loss_, bytes, Category::activation_gradients);
    });
    const std::vector<std::size_t> order = arrivals(*schedule_);
    const bool as_they_come = strategy_.partitions_gradients;
    if (first_ || as_they_come)
      writer_.at(Phase::backward, order.empty() ? end : schedule_->gradient_arrives[order.front()],
                 [&] { make_buckets(); });
    if (as_they_come || last_)
      for (const std::size_t i : order)
        writer_.at(Phase::backward, as_they_come ? schedule_->gradient_arrives[i] : end, [&] { take(i); });
    writer_.at(Phase::backward, end, [&] { end_backward(); });
  }

  void end_backward() {
    reduce();
    if (strategy_.offloads) {
      if (strategy_.partitions_gradients || last_) free_buckets();
      writer_.free(scaled_);
      writer_.free(loss_);
      return;
    }
    const std::vector<std::int32_t> zeros = make_zeros();
    if (zeros_.empty()) zeros_ = zeros;
    if (last_ && part_.padding > 0) writer_.allocate(padding_, part_.padding * size_, Category::gradients);
    if (strategy_.partitions_gradients || last_) free_buckets();
    if (!first_ && strategy_.partitions_gradients) {  // added to those of the first one
      writer_.free(more_);
      for (const std::int32_t slot : zeros) writer_.free(slot);
    }
    writer_.free(scaled_);
    writer_.free(loss_);
  }

  // What the stream of reductions has read waits for an event.
  void free_buckets() {
    for (const std::int32_t bucket : buckets()) {
      if (strategy_.overlaps_reductions && reductions_-- > 0)
        writer_.free_later(bucket);
      else
        writer_.free(bucket);
    }
    reductions_ = 0;
  }

  // get_all_grad_tensors: of parameters in the rank's part that got no gradient.
  std::vector<std::int32_t> make_zeros() {
    std::vector<std::int32_t> zeros;
    if (!strategy_.partitions_gradients && !last_) return zeros;
    for (const FlatPart::Within& w : part_.parameters)
      if (gradient_place(*schedule_, w.parameter) == kNone)
        writer_.allocate(zeros.emplace_back(writer_.new_slot()), elements_of(graph_, w.parameter) * size_,
                         Category::gradients);
    return zeros;
  }

  std::vector<std::int32_t> buckets() const {
    return strategy_.overlaps_reductions ? std::vector{bucket_, other_bucket_} : std::vector{bucket_};
  }
  void make_buckets() {
    for (const std::int32_t bucket : buckets())
      writer_.allocate(bucket, strategy_.reduce_bucket_elements * size_, Category::gradients);
  }

  // reduce_independent_p_g_buckets_and_remove_grads
  void take(std::size_t gradient) {
    const std::int32_t number = schedule_->with_gradient[gradient];
    const std::int64_t elements = elements_of(graph_, number);
    if (filled_ + elements > strategy_.reduce_bucket_elements) reduce();
    if (elements > strategy_.reduce_bucket_elements)
      too_large_ = schedules_.front().gradient_of[gradient];
    else
      writer_.free_buffer(schedules_.front().gradient_of[gradient]);
    filled_ += elements;
    waiting_.push_back(number);
  }

  // reduce_ipg_grads: all is reduced in one flat copy, unless it is of one rank.
  void reduce() {
    if (waiting_.empty()) return;
    ++reductions_;
    if (parts_waiting() > 1) {
      writer_.allocate(reduced_, filled_ * size_, Category::gradients, stream());
      writer_.free(reduced_);
    }
    if (strategy_.offloads) send_to_host();
    const auto is_kept = [&](std::int32_t p) {
      return std::ranges::find(part_.parameters, p, &FlatPart::Within::parameter) != part_.parameters.end();
    };
    if (!strategy_.offloads && std::ranges::any_of(waiting_, is_kept) && !std::exchange(keeps_, true)) {
      std::int64_t kept = 0;
      for (const FlatPart::Within& w : part_.parameters) kept += elements_of(graph_, w.parameter);
      writer_.allocate(first_ || !strategy_.partitions_gradients ? kept_ : more_, kept * size_, Category::gradients,
                       stream());
    }
    if (too_large_ != kNone) {
      if (strategy_.overlaps_reductions)
        writer_.free_buffer_later(too_large_);
      else
        writer_.free_buffer(too_large_);
    }
    too_large_ = kNone;
    waiting_.clear();
    filled_ = 0;
  }

  // Those of earlier micro-batches wait on the host as they are.
  void send_to_host() {
    if (!last_) return;
    for (const std::int32_t p : waiting_) {
      const auto own = std::ranges::find(part_.parameters, p, &FlatPart::Within::parameter);
      if (own == part_.parameters.end()) continue;
      write_to_host({.elements = elements_of(graph_, p),
                     .own = own->elements,
                     .type = graph_.tensor(graph_.parameters[index(p)].tensor).dtype,
                     .norm = norms_.emplace_back(writer_.new_slot())},
                    stream(), gpu_, writer_);
    }
  }

  // step(): whether a gradient overflowed, and the norm of all, as each rank says it; the norms of each go last.
  void step_on_host() {
    writer_.memory().before_optimizer = writer_.written([&] {
      for (const std::int64_t bytes : {std::int64_t{1}, kMaster}) {
        writer_.allocate(scale_, bytes, Category::gradients);
        writer_.free(scale_);
      }
    });
    writer_.memory().after_optimizer = writer_.written([&] {
      for (const std::int32_t slot : norms_) writer_.free(slot);
    });
  }

  std::int32_t stream() const { return strategy_.overlaps_reductions ? kReductionStream : 0; }

  // Ranks one after another that have something of what waits.
  std::int64_t parts_waiting() const {
    std::vector<std::int64_t> begins(graph_.parameters.size(), 0);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < graph_.parameters.size(); ++i) {
      begins[i] = at;
      if (graph_.parameters[i].trainable) at += graph_.tensor(graph_.parameters[i].tensor).shape.elements();
    }
    std::int64_t parts = 0, last = kNone;
    for (const std::int32_t p : waiting_) {
      const std::int64_t first = begins[index(p)] / part_.elements;
      const std::int64_t end = (begins[index(p)] + elements_of(graph_, p) - 1) / part_.elements;
      for (std::int64_t rank = first; rank <= end; ++rank) {
        if (rank != last) ++parts;
        last = rank;
      }
    }
    return parts;
  }

  // step(): norms of the gradients in fp64, then the flat part of them in fp32.
  void take_gradient() {
    std::vector<std::int64_t> elements;
    for (const FlatPart::Within& w : part_.parameters) elements.push_back(w.elements);
    write_norms(elements, gpu_, writer_);
    writer_.allocate(scale_, kMaster, Category::gradients);
    writer_.allocate(new_norm_, kMaster, Category::gradients);
    const std::size_t pieces = part_.parameters.size() + (part_.padding > 0 ? 1 : 0);
    if (pieces > 1) writer_.allocate(clone_, part_.elements * size_, Category::gradients);
    writer_.allocate(gradient_, part_.elements * kMaster, Category::gradients);
    writer_.free(clone_);
    writer_.free(kept_);
    for (const std::int32_t slot : zeros_) writer_.free(slot);
    writer_.free(padding_);
  }

  const Graph& graph_;
  std::span<const Schedule> schedules_;
  const Schedule* schedule_ = nullptr;  // of the micro-batch
  std::int64_t micro_batches_;
  SavedCheckpoint save_;
  const Strategy& strategy_;
  const Gpu& gpu_;
  std::int64_t size_;  // bytes of a parameter's element
  FlatPart part_;
  CollectiveWriter writer_;
  std::int32_t flat_ = 0, clone_ = 0, master_ = 0, bucket_ = 0, reduced_ = 0, kept_ = 0, padding_ = 0, gradient_ = 0,
               scaled_ = 0, loss_ = 0, scale_ = 0, new_norm_ = 0, old_norm_ = 0, other_bucket_ = 0, more_ = 0;
  bool first_ = false, last_ = false, keeps_ = false;
  std::int64_t filled_ = 0;
  int reductions_ = 0;                 // of the micro-batch
  std::vector<std::int32_t> waiting_;  // parameters whose gradients are in the bucket
  std::vector<std::int32_t> zeros_;    // slots, of the first micro-batch that has them
  std::vector<std::int32_t> norms_;    // slots, of gradients that the host has
  BufferId too_large_ = kNone;         // a gradient that no bucket has room for
};

}  // namespace

CollectiveMemory deepspeed_memory(const Graph& graph, std::span<const Schedule> schedules, const Strategy& strategy,
                                  const RunConfig& run, const Gpu& gpu) {
  return DeepSpeedWriter(graph, schedules, strategy, run, gpu).write();
}

StateBytes deepspeed_states(const Graph& graph, const Strategy& strategy, const RunConfig& run,
                            std::int64_t optimizer_bytes) {
  const FlatPart part = flat_part(graph, strategy.ranks(), strategy.rank);
  if (strategy.offloads) return {checked_mul(part.all_elements, size_of(run.precision)), 0, 0};
  const std::int64_t gradients = strategy.partitions_gradients ? part.elements : part.all_elements;
  return {checked_mul(part.all_elements, size_of(run.precision)), checked_mul(gradients, size_of(run.precision)),
          checked_add(optimizer_bytes, checked_mul(part.elements, kMaster))};
}

}  // namespace gpuplan
