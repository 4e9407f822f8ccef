// The training loop of a plan, event by event: model construction and some steps, each of forward, loss, backward,
// clip and optimizer, under an allocator. The last of three or more steps is steady: reserved memory has settled.
// Estimating runs it over segments that are only arithmetic, validating over a device's.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/allocator/step_kernels.h"

namespace gpuplan {

template <class Allocator>
class TrainingLoop : private StepKernels<Allocator> {
 public:
  static constexpr int kSteps = 3;  // the third is steady

  TrainingLoop(Allocator& allocator, const LoopParts& parts, LoopFollower* follower = nullptr, int steps = kSteps)
      : Base(allocator, parts, follower), steps_(steps) {
    result_.timeline.reserve(passes_.back().steps.size() + kPhases);
    for (std::size_t i = 0; i < passes_.size(); ++i) find_phases(i);
  }

  /// Throws NoRoom where the allocator has none.
  Placement replay() {
    build_model();
    const int reported = run_.mode == Mode::train && run_.first_step ? 0 : steps_ - 1;
    for (int i = 0; i < steps_; ++i) {
      recording_ = i == 0 || i == steps_ - 1;
      reporting_ = i == reported;
      steady_ = i == steps_ - 1;
      allocator_.reset_peaks();
      highest_ = -1;
      training_step_ = i;
      step(i);
    }
    result_.segments = allocator_.segment_count();
    result_.inactive_split_bytes = allocator_.inactive_split_bytes();
    result_.allocations = allocations_;
    return std::move(result_);
  }

  /// The same where the allocator may have no room. `whole`: what replay() returns, where it has.
  LimitedPlacement replay_within_limit(Placement* whole = nullptr) {
    LimitedPlacement limited;
    try {
      Placement placement = replay();
      if (whole != nullptr) *whole = std::move(placement);
    } catch (const NoRoom&) {
      limited = {0, true, allocator_.out_of_memory(), training_step_, phase_, step_, pass_};
    }
    limited.retries = allocator_.retry_count();
    return limited;
  }

 private:
  using Base = StepKernels<Allocator>;
  using Base::allocate, Base::allocate_bytes, Base::begin_forward, Base::block_of, Base::buffer, Base::build_model,
      Base::index, Base::note_peak, Base::record, Base::release, Base::release_as, Base::release_block,
      Base::release_result, Base::run_collectives, Base::run_collectives_before, Base::run_kernel, Base::run_optimizer,
      Base::s;
  using Base::allocations_, Base::allocator_, Base::blocks_, Base::categories_, Base::collectives_, Base::follower_,
      Base::fp32_gradients_, Base::highest_, Base::kernels_, Base::optimizer_, Base::pass_, Base::passes_, Base::phase_,
      Base::recording_, Base::reporting_, Base::result_, Base::run_, Base::silent_, Base::slots_, Base::steady_,
      Base::step_, Base::step_peak_, Base::training_step_;

  void step(int i) {
    if (reporting_) note_peak(Phase::start, kNone);
    if (i > 0) zero_gradients();
    record(Phase::start);
    if (run_.mode == Mode::infer) {
      follow_micro_batch(0);
      infer(i > 0);
    } else {
      for (std::int64_t m = 0; m < run_.micro_batches; ++m) {
        pass_ = m == 0 ? 0 : passes_.size() - 1;
        silent_ = m + 1 < run_.micro_batches;
        follow_micro_batch(m);
        pass(i > 0 || m > 0, i == 0 && m == 0);
      }
      silent_ = false;
      update(i);
    }
    record(Phase::end);
  }

  void follow_micro_batch(std::int64_t number) {
    if (follower_ != nullptr) follower_->micro_batch(number);
  }

  void zero_gradients() {
    for (const BufferId g : passes_.front().gradients) release(g);
    for (BlockId& g : fp32_gradients_) release_as(g, Category::gradients);
    fp32_gradients_.clear();
    if (collectives_ != nullptr) run_collectives(collectives_->zero_grad);
  }

  void infer(bool result_is_held) {
    const BlockId held_output = block_of(s().output);
    run_steps(Phase::forward);
    if (run_.loop == Loop::plain && result_is_held) release_block(held_output, s().output);
    record(Phase::forward);
    if (run_.loop != Loop::plain) release_result(s().output);
    for (const BufferId b : s().beside_results) release(b);
  }

  // Forward, loss and backward of one micro-batch. A plain loop's names hold the last results until they are bound
  // anew.
  void pass(bool result_is_held, bool first) {
    const BlockId held_output = block_of(s().output);
    const BlockId held_loss = block_of(s().loss);
    const BlockId held_model_loss = block_of(s().model_loss);
    begin_forward();
    std::vector<BlockId> held_beside;
    for (const BufferId b : s().beside_results) held_beside.push_back(block_of(b));
    run_steps(Phase::forward);
    record(Phase::forward);
    run_steps(Phase::loss);
    if (run_.loop == Loop::plain && result_is_held) {
      release_block(held_output, s().output);
      release_block(held_loss, s().loss);
      release_block(held_model_loss, s().model_loss);
      for (std::size_t i = 0; i < held_beside.size(); ++i) release_block(held_beside[i], s().beside_results[i]);
    }
    record(Phase::loss);
    phase_ = Phase::backward;
    updates_first_ = first;
    if (first) run_optimizer(optimizer_.scaler, OptimizerPart::scaler);
    run_steps(Phase::backward);
    record(Phase::backward);
    // The recorded loop deletes its output and loss between backward and step(), unless it is `plain`.
    if (run_.loop == Loop::plain) return;
    release_result(s().output);
    release_result(s().loss);
    release_result(s().model_loss);
    for (const BufferId b : s().beside_results) release(b);
  }

  void update(int i) {
    phase_ = Phase::clip;
    if (run_.clip_grad_norm) {
      run_optimizer(optimizer_.clip, OptimizerPart::clip);
      record(Phase::clip);
    }
    phase_ = Phase::optimizer;
    run_optimizer(i == 0 ? optimizer_.first : optimizer_.steady, OptimizerPart::step);
    record(Phase::optimizer);
  }

  // --- steps ------------------------------------------------------------------------------------------------------

  void find_phases(std::size_t pass) {
    const std::vector<Step>& steps = passes_[pass].steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      auto& range = phase_steps_[pass][static_cast<std::size_t>(steps[i].phase)];
      phase_kernels_[pass][static_cast<std::size_t>(steps[i].phase)] += steps[i].kernels;
      if (range.begin == range.end) range.begin = static_cast<std::int32_t>(i);
      range.end = static_cast<std::int32_t>(i) + 1;
    }
  }

  void run_steps(Phase phase) {
    phase_ = phase;
    const Range range = phase_steps_[pass_][static_cast<std::size_t>(phase)];
    if (recording_) kernels_ += phase_kernels_[pass_][static_cast<std::size_t>(phase)];
    const Schedule& schedule = s();
    for (std::int32_t i = range.begin; i < range.end; ++i) {
      const Step& step = schedule.steps[static_cast<std::size_t>(i)];
      run_collectives_before(i);
      step_ = i;
      if (reporting_) step_peak_ = allocator_.allocated_bytes();
      if (step.what != nullptr) run_kernel(step);
      update_parameter(i);
      for (std::int32_t k = step.releases.begin; k < step.releases.end; ++k) release(schedule.released[index(k)]);
      if (next_replacement_ < schedule.replacements.size() && schedule.replacements[next_replacement_].step == i)
        replace();
      if (reporting_) result_.timeline.push_back({phase, allocator_.allocated_bytes(), step_peak_});
    }
    run_collectives_before(range.end);
    next_replacement_ = next_update_ = 0;
    step_ = kNone;
  }

  // An optimizer's step within backward.
  void update_parameter(std::int32_t step) {
    if (phase_ != Phase::backward || next_update_ >= s().updates.size() || s().updates[next_update_].step != step)
      return;
    const std::size_t parameter = index(s().updates[next_update_++].parameter);
    const auto& programs = updates_first_ ? optimizer_.first_of : optimizer_.steady_of;
    if (parameter >= programs.size()) return;
    run_optimizer(programs[parameter], OptimizerPart::step, static_cast<std::int32_t>(parameter));
  }

  void replace() {
    const auto& r = s().replacements[next_replacement_++];
    release(r.old_buffer);
    blocks_[index(r.old_buffer)] = blocks_[index(r.new_buffer)];
    move_category(r);
    blocks_[index(r.new_buffer)] = kNoBlock;
    if (follower_ != nullptr) follower_->placed(r.old_buffer, this->address(blocks_[index(r.old_buffer)]));
  }

  void move_category(const Schedule::Replacement& r) {
    const std::int64_t bytes = allocator_.charged_bytes(blocks_[index(r.old_buffer)]);
    categories_[static_cast<std::size_t>(buffer(r.new_buffer).category)] -= bytes;
    categories_[static_cast<std::size_t>(buffer(r.old_buffer).category)] += bytes;
  }

  int steps_;
  std::array<std::array<Range, kPhases>, 2> phase_steps_{};
  std::array<std::array<std::int64_t, kPhases>, 2> phase_kernels_{};
  std::size_t next_replacement_ = 0, next_update_ = 0;
  bool updates_first_ = false;  // optimizers in backward have no states yet
};

}  // namespace gpuplan
