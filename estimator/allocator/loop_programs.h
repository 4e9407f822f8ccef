// The programs of a training loop that run beside the operations of its schedules: the optimizer's and the
// collectives'. A part of TrainingLoop.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/allocator/placed_blocks.h"

namespace gpuplan {

template <class Allocator>
class LoopPrograms : protected PlacedBlocks<Allocator> {
 protected:
  using Base = PlacedBlocks<Allocator>;
  using Base::allocate_bytes, Base::index, Base::release, Base::release_as, Base::release_scratch;
  using Base::collectives_, Base::follower_, Base::kernels_, Base::optimizer_, Base::pass_, Base::passes_, Base::phase_,
      Base::recording_, Base::run_, Base::training_step_;

  LoopPrograms(Allocator& allocator, const LoopParts& parts, LoopFollower* follower)
      : Base(allocator, parts, follower) {
    if (collectives_ != nullptr) collective_blocks_.assign(index(collectives_->slots), {kNoBlock, Category::scratch});
  }

  void run_optimizer(const OptimizerProgram& program, OptimizerPart part, std::int32_t parameter = kNone) {
    if (recording_) kernels_ += program.kernels;
    // What the program computes is done when all that it makes is there, and what is still to be freed then.
    std::size_t ready = follower_ == nullptr ? 0 : program.events.size();
    while (ready > 0 && program.events[ready - 1].kind == OptimizerEvent::Kind::free) --ready;
    for (std::size_t i = 0; i <= program.events.size(); ++i) {
      if (follower_ != nullptr && i == ready) follower_->optimizer(part, training_step_, parameter);
      if (i < program.events.size()) run_event(program.events[i], part);
    }
  }

  void run_event(const OptimizerEvent& e, OptimizerPart part) {
    using Kind = OptimizerEvent::Kind;
    const auto slot = static_cast<std::size_t>(e.slot);
    if (slots_.size() <= slot) slots_.resize(slot + 1, kNoBlock);
    switch (e.kind) {
      case Kind::alloc_state: {
        const BlockId state = allocate_bytes(e.bytes, Category::optimizer_state);
        if (follower_ != nullptr) follower_->state(this->address(state), e.bytes);
        break;
      }
      case Kind::alloc_tensor:
        slots_[slot] = allocate_bytes(e.bytes, Category::scratch);
        if (follower_ != nullptr) follower_->optimizer_tensor(part, e.slot, this->address(slots_[slot]));
        break;
      case Kind::alloc_scratch:
        slots_[slot] = run_.scratch == Scratch::none ? kNoBlock : allocate_bytes(e.bytes, Category::scratch);
        break;
      case Kind::free: release_scratch(slots_[slot]); break;
      case Kind::alloc_gradient:
        fp32_gradients_.push_back(allocate_bytes(e.bytes, Category::gradients));
        if (follower_ != nullptr) follower_->fp32_gradient(this->address(fp32_gradients_.back()));
        break;
      case Kind::free_gradient: release(passes_.front().gradient_of[slot]); break;
    }
  }

  void run_collectives(Range events) {
    using Kind = CollectiveEvent::Kind;
    for (std::int32_t i = events.begin; i < events.end; ++i) {
      const CollectiveEvent& e = collectives_->events[index(i)];
      if (e.kind == Kind::free_buffer) {
        release(e.slot);
        continue;
      }
      auto& [block, category] = collective_blocks_[index(e.slot)];
      if (e.kind == Kind::free) {
        release_as(block, category);
      } else if (e.category != Category::scratch || run_.scratch != Scratch::none) {
        block = allocate_bytes(e.bytes, e.category, e.stream);
        category = e.category;
      }
    }
  }

  void run_construction_collectives(std::size_t made) {
    if (collectives_ == nullptr) return;
    const auto at = static_cast<std::int32_t>(made);
    const auto& points = collectives_->construction;
    for (auto p = std::ranges::lower_bound(points, at, {}, &CollectivePoint::step); p != points.end() && p->step == at;
         ++p)
      run_collectives(p->events);
  }

  // Those before step `i` of the phase.
  void run_collectives_before(std::int32_t i) {
    if (collectives_ == nullptr) return;
    const auto& points = collectives_->points;
    while (next_collective_ < points.size() && points[next_collective_].phase == phase_ &&
           points[next_collective_].step <= i)
      run_collectives(points[next_collective_++].events);
  }

  // Buffers are sent, and buckets made anew, before the first micro-batch only: the forward before one of the others
  // was under no_sync() (distributed.py, require_forward_param_sync), and so was its backward, whose gradients the
  // reducer does not see (reducer.cpp, expect_autograd_hooks_).
  void begin_forward() {
    if (collectives_ == nullptr) return;
    const bool first_micro_batch = pass_ == 0;
    next_collective_ = first_micro_batch ? 0 : collectives_->points.size();
    if (first_micro_batch && ++forwards_ == 2) run_collectives(collectives_->second_forward);
  }

  std::vector<BlockId> slots_;                                   // of the optimizer's program
  std::vector<BlockId> fp32_gradients_;                          // of master weights
  std::vector<std::pair<BlockId, Category>> collective_blocks_;  // by slot
  std::size_t next_collective_ = 0;
  int forwards_ = 0;
};

}  // namespace gpuplan
