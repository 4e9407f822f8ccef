#include "estimator/distributed/stage_context.h"

#include <utility>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kIndex = 8, kOrder = 4;  // bytes: int64, int32

// torch/distributed/tensor/experimental/_context_parallel/_attention.py, _context_parallel_buffers and
// context_parallel(): layers/context_batch.cpp is the same of a batch that is no pipeline's.
class StepCut {
 public:
  StepCut(CollectiveWriter& writer, std::int64_t samples, std::int64_t all, std::int64_t ranks)
      : writer_(writer), samples_(samples), all_(all), ranks_(ranks) {}

  void before(bool first, bool last) {
    if (first) batch_.push_back(made(whole()));
    if (last) batch_.push_back(shifted_labels());
    batch_.push_back(made(checked_mul(all_, kIndex)));  // torch.arange(all).expand(samples, -1)
    const std::int32_t order = balanced() ? balanced_order() : kNone;
    for (std::size_t i = 0; i < batch_.size(); ++i) held_.push_back(part_of_one(order));
    if (order != kNone) writer_.free(order);
    for (std::size_t i = 0; i < batch_.size(); ++i) cut_in_place(i);
  }

  // The context lets go of its lists from their ends, and then the step of its batch.
  void after() {
    for (std::size_t i = held_.size(); i-- > 0;) writer_.free(held_[i]);
    writer_.free(copied_);
    for (const std::int32_t slot : batch_) writer_.free(slot);
  }

 private:
  std::int64_t tokens() const { return all_ / ranks_; }
  bool balanced() const { return balances_context(tokens()); }
  std::int64_t whole() const { return checked_mul(checked_mul(samples_, all_), kIndex); }
  std::int64_t part() const { return whole() / ranks_; }

  std::int32_t made(std::int64_t bytes) {
    const std::int32_t slot = writer_.new_slot();
    writer_.allocate(slot, bytes, Category::inputs);
    return slot;
  }

  // pad(labels, (0, 1), value=-100)[:, 1:].contiguous()
  std::int32_t shifted_labels() {
    const std::int32_t padded = made(checked_mul(checked_mul(samples_, all_ + 1), kIndex));
    const std::int32_t shifted = made(whole());
    writer_.free(padded);
    return shifted;
  }

  // _HeadTailLoadBalancer._generate_indices
  std::int32_t balanced_order() {
    const std::int64_t halves = checked_mul(ranks_, tokens() / 2) * kOrder;
    const std::int32_t indices = made(all_ * kOrder), head = made(ranks_ * kIndex), tail = made(ranks_ * kIndex);
    const std::int32_t heads = made(halves), tails = made(halves), order = made(all_ * kOrder);
    for (const std::int32_t slot : {tails, heads, indices, head, tail}) writer_.free(slot);
    return order;
  }

  std::int32_t part_of_one(std::int32_t order) {
    const std::int32_t ordered = order == kNone ? kNone : made(whole());
    const std::int32_t of_rank = made(part());
    if (ordered != kNone) writer_.free(ordered);
    return of_rank;
  }

  // resize_() makes the storage larger where it is too small, as that of one sample's positions is.
  void cut_in_place(std::size_t i) {
    if (copied_ != kNone) writer_.free(copied_);
    copied_ = made(part());
    const bool of_positions = i + 1 == batch_.size();
    if (!of_positions || part() <= all_ * kIndex) return;
    const std::int32_t larger = made(part());
    writer_.free(std::exchange(batch_[i], larger));
  }

  CollectiveWriter& writer_;
  std::int64_t samples_, all_, ranks_;
  std::vector<std::int32_t> batch_, held_;  // slots
  std::int32_t copied_ = kNone;
};

}  // namespace

void cut_step(RankStep& rank, std::int64_t all) {
  CollectiveWriter writer;
  writer.memory() = std::move(*rank.collectives);
  StepCut cut(writer, rank.run.batch, all, rank.strategy.context);
  writer.memory().before_step = writer.written([&] { cut.before(rank.stages.front().first, rank.stages.back().last); });
  writer.memory().after_step = writer.written([&] { cut.after(); });
  rank.collectives = writer.finish();
}

}  // namespace gpuplan
