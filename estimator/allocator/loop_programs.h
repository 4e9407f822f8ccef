// The allocations of optimizers and collectives, which a training loop runs in addition to its schedules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "estimator/allocator/placed_blocks.h"

namespace gpuplan {

class OptimizerPrograms {
 public:
  OptimizerPrograms(const RunningLoop& loop, PlacedBlocks& blocks, LoopReadings& readings)
      : loop_(loop), blocks_(blocks), readings_(readings) {}

  void run(const OptimizerProgram& program, OptimizerPart part, std::int32_t parameter = kNone) {
    readings_.count_kernels(program.kernels);
    // The computation is complete after the last allocation; only frees follow.
    std::size_t ready = loop_.observer == nullptr ? 0 : program.events.size();
    while (ready > 0 && program.events[ready - 1].kind == OptimizerEvent::Kind::free) --ready;
    for (std::size_t i = 0; i <= program.events.size(); ++i) {
      if (loop_.observer != nullptr && i == ready) loop_.observer->optimizer(part, loop_.training_step, parameter);
      if (i < program.events.size()) run(program.events[i], part);
    }
  }

  /// Of a trainer's own tensors, which no observer follows.
  void run_unobserved(const OptimizerProgram& program) {
    readings_.count_kernels(program.kernels);
    for (const OptimizerEvent& e : program.events) run(e, OptimizerPart::step);
  }

  void release_fp32_gradients() {
    for (BlockId& g : fp32_gradients_) blocks_.release_as(g, Category::gradients);
    fp32_gradients_.clear();
  }

 private:
  void run(const OptimizerEvent& e, OptimizerPart part) {
    using Kind = OptimizerEvent::Kind;
    LoopObserver* const observer = loop_.observer;
    const auto slot = static_cast<std::size_t>(e.slot);
    if (slots_.size() <= slot) slots_.resize(slot + 1, kNoBlock);
    switch (e.kind) {
      case Kind::alloc_input: inputs_.emplace(e.slot, blocks_.allocate_bytes(e.bytes, Category::inputs)); break;
      case Kind::free_input:
      case Kind::drop_input:
        if (inputs_.count(e.slot) < (e.kind == Kind::free_input ? 2 : 1)) break;
        blocks_.release_as(inputs_.find(e.slot)->second, Category::inputs);
        inputs_.erase(inputs_.find(e.slot));
        break;
      case Kind::alloc_state: {
        const BlockId state = blocks_.allocate_bytes(e.bytes, Category::optimizer_state);
        states_.emplace(e.slot, state);
        if (observer != nullptr) observer->state(blocks_.address(state), e.bytes);
        break;
      }
      case Kind::alloc_tensor:
        slots_[slot] = blocks_.allocate_scratch(e.bytes);
        if (observer != nullptr) observer->optimizer_tensor(part, e.slot, blocks_.address(slots_[slot]));
        break;
      case Kind::alloc_scratch:
        slots_[slot] = loop_.rank->run.scratch == Scratch::none ? kNoBlock : blocks_.allocate_scratch(e.bytes);
        break;
      case Kind::free: blocks_.release_scratch(slots_[slot]); break;
      case Kind::free_state: {
        const auto oldest = states_.find(e.slot);
        blocks_.release_as(oldest->second, Category::optimizer_state);
        states_.erase(oldest);
        break;
      }
      case Kind::alloc_gradient:
        fp32_gradients_.push_back(blocks_.allocate_bytes(e.bytes, Category::gradients));
        if (observer != nullptr) observer->fp32_gradient(blocks_.address(fp32_gradients_.back()));
        break;
      case Kind::free_gradient: blocks_.release(loop_.rank->micro_batches.schedules.front().gradient_of[slot]); break;
    }
  }

  const RunningLoop& loop_;
  PlacedBlocks& blocks_;
  LoopReadings& readings_;
  std::vector<BlockId> slots_;
  std::multimap<std::int32_t, BlockId> states_, inputs_;  // by slot, the oldest first
  std::vector<BlockId> fp32_gradients_;                   // of master weights
};

/// Does nothing where one rank is all there is.
class CollectivePrograms {
 public:
  CollectivePrograms(const RunningLoop& loop, PlacedBlocks& blocks)
      : loop_(loop), memory_(loop.rank->beside()), blocks_(blocks) {
    if (memory_ != nullptr) slots_.assign(index(memory_->slots), {kNoBlock, Category::scratch});
  }

  void zero_gradients() {
    if (memory_ != nullptr) run(memory_->zero_grad);
  }

  /// While the model is made: when so many of Graph::model_storage are there.
  void run_construction(std::size_t made) {
    if (memory_ == nullptr) return;
    const auto at = static_cast<std::int32_t>(made);
    const auto& points = memory_->construction;
    for (auto p = std::ranges::lower_bound(points, at, {}, &CollectivePoint::step); p != points.end() && p->step == at;
         ++p)
      run(p->events);
  }

  /// Those before step `i` of the phase.
  void run_before(std::int32_t i) {
    if (memory_ == nullptr) return;
    const auto& points = memory_->rounds[round_][static_cast<std::size_t>(kind_)];
    while (next_ < points.size() && points[next_].phase == loop_.phase && points[next_].step <= i)
      run(points[next_++].events);
  }

  /// Of the loop's stage, whose micro-batches come in turns: goes on where the step of the phase begins.
  void turn_to(MicroBatch kind, Phase phase, std::int32_t step) {
    if (memory_ == nullptr) return;
    kind_ = kind;
    round_ = loop_.stage;
    const auto& points = memory_->rounds[round_][static_cast<std::size_t>(kind_)];
    const auto next = std::ranges::find_if(
        points, [&](const CollectivePoint& p) { return p.phase > phase || (p.phase == phase && p.step >= step); });
    next_ = static_cast<std::size_t>(next - points.begin());
  }
  /// What an action of a stage runs.
  void run_of_stage(std::size_t stage, Range CollectiveMemory::StageEvents::*events) {
    if (memory_ != nullptr && stage < memory_->stages.size()) run(memory_->stages[stage].*events);
  }

  void begin_step() {
    if (memory_ != nullptr) run(memory_->before_step);
  }
  void end_step() {
    if (memory_ != nullptr) run(memory_->after_step);
  }

  void begin_first_clip() {
    if (memory_ != nullptr) run(memory_->first_clip);
  }
  void begin_optimizer() {
    if (memory_ != nullptr) run(memory_->before_optimizer);
  }
  /// How often the optimizer is called in a step, each time with a part of the parameters; 0: once with all.
  std::size_t optimizer_parts() const { return memory_ == nullptr ? 0 : memory_->part_steps.size(); }
  bool clips_within_step() const { return memory_ != nullptr && memory_->clips_within_step; }
  void begin_part(std::size_t part) { run(memory_->part_steps[part].before); }
  void end_part(std::size_t part) { run(memory_->part_steps[part].after); }
  void end_optimizer() {
    if (memory_ != nullptr) run(memory_->after_optimizer);
  }

  void begin_saving() {
    if (memory_ != nullptr) run(memory_->saving);
  }

  /// Of a step's micro-batch.
  void begin_forward(std::int64_t number, std::int64_t of) {
    if (memory_ == nullptr) return;
    kind_ = number == 0 ? MicroBatch::first : number + 1 == of ? MicroBatch::last : MicroBatch::middle;
    next_ = 0;
    round_ = std::min(forward_, memory_->rounds.size() - 1);
    ++forward_;
    if (number == 0 && ++steps_ == 2) run(memory_->second_forward);
  }

 private:
  void run(Range events) {
    using Kind = CollectiveEvent::Kind;
    for (std::int32_t i = events.begin; i < events.end; ++i) {
      const CollectiveEvent& e = memory_->events[index(i)];
      if (e.kind == Kind::skip_if_there) {
        if (slots_[index(e.slot)].first != kNoBlock) i += static_cast<std::int32_t>(e.bytes);
        continue;
      }
      if (e.kind == Kind::empty_cache) {
        blocks_.empty_cache();
        continue;
      }
      if (e.kind == Kind::free_buffer || e.kind == Kind::free_buffer_later) {
        blocks_.release(e.slot, e.kind == Kind::free_buffer_later);
        continue;
      }
      auto& [block, category] = slots_[index(e.slot)];
      if (e.kind == Kind::free || e.kind == Kind::free_later) {
        blocks_.release_as(block, category, e.kind == Kind::free_later);
      } else if (e.category != Category::scratch || loop_.rank->run.scratch != Scratch::none) {
        block = blocks_.allocate_bytes(e.bytes, e.category, e.stream);
        category = e.category;
      }
    }
  }

  const RunningLoop& loop_;
  const CollectiveMemory* memory_;
  PlacedBlocks& blocks_;
  std::vector<std::pair<BlockId, Category>> slots_;
  MicroBatch kind_ = MicroBatch::first;
  std::size_t next_ = 0;  // of the points of round_ and kind_
  std::size_t round_ = 0, forward_ = 0;
  int steps_ = 0;
};

}  // namespace gpuplan
