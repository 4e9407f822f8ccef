// What the kernels of a schedule's steps allocate: their results, and scratch while they run. A part of TrainingLoop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "estimator/allocator/model_construction.h"
#include "estimator/operators/cudnn_rnn.h"
#include "estimator/operators/scratch.h"

namespace gpuplan {

template <class Allocator>
class StepKernels : protected ModelConstruction<Allocator> {
 protected:
  using Base = ModelConstruction<Allocator>;
  using Base::allocate, Base::allocate_bytes, Base::index, Base::release_scratch, Base::s;
  using Base::follower_, Base::gpu_, Base::pass_, Base::phase_, Base::run_, Base::step_;

  StepKernels(Allocator& allocator, const LoopParts& parts, LoopFollower* follower)
      : Base(allocator, parts, follower) {}

  void run_kernel(const Step& step) {
    const std::int32_t actions = step.scratch.end - step.scratch.begin;
    // A workspace once the results are there is all that most kernels have.
    const bool plain = actions == 0 || (actions == 1 && s().scratch[index(step.scratch.begin)] > 0);
    if (!plain || step.dropout_states || follower_ != nullptr || makes_cublas_workspace(step))
      return run_kernel_with_scratch(step);
    for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k) allocate(s().allocated[index(k)]);
    if (actions == 1) this->use_scratch(s().scratch[index(step.scratch.begin)]);
  }

  void run_kernel_with_scratch(const Step& step) {
    std::int32_t next = step.allocates.begin;
    const auto program =
        std::span(s().scratch).subspan(index(step.scratch.begin), index(step.scratch.end - step.scratch.begin));
    const auto remaining = [&] {
      while (next < step.allocates.end) allocate(s().allocated[index(next++)]);
    };
    if (std::ranges::find(program, kNextOutput) == program.end()) remaining();
    scratch_.clear();
    scratch_bytes_.clear();
    placed_scratch_.clear();
    if (step.dropout_states) ensure_dropout_states();
    const auto outputs_to_come = [&](std::size_t from) {
      return std::ranges::find(program.subspan(from), kNextOutput) != program.end();
    };
    bool ran = follower_ == nullptr;
    for (std::size_t i = 0; i < program.size(); ++i) {
      const std::int64_t n = program[i];
      if (n == kNextOutput) {
        allocate(s().allocated[index(next++)]);
      } else if (n > 0) {
        scratch_.push_back(allocate_bytes(n, Category::scratch));
        if (!ran) scratch_bytes_.push_back(n);
      } else {
        if (!ran && !outputs_to_come(i)) ran = follow_kernel();
        release_scratch(scratch_[index(-n - 1)]);
      }
    }
    remaining();
    if (!ran) follow_kernel();
    if (makes_cublas_workspace(step)) {
      cublas_workspace() = true;
      allocate_bytes(cublas_workspace_bytes(gpu_), Category::scratch);
    }
    for (BlockId& b : scratch_) release_scratch(b);
  }

  // What the kernel computes is done when all it allocates is there and as much of its scratch as is still to be freed.
  bool follow_kernel() {
    for (std::size_t i = 0; i < scratch_.size(); ++i)
      placed_scratch_.push_back({this->address(scratch_[i]), scratch_bytes_[i]});
    follower_->run(pass_, step_, placed_scratch_);
    return true;
  }

  // Forward and backward run on two threads, each with a cuBLAS handle of its own.
  bool& cublas_workspace() { return phase_ == Phase::backward ? workspace_backward_ : workspace_forward_; }
  bool makes_cublas_workspace(const Step& step) {
    return step.product && !cublas_workspace() && keeps_cublas_workspace(run_.pytorch) && run_.scratch != Scratch::none;
  }

  // aten/src/ATen/native/cudnn/RNN.cpp, get_dropout_state: made once a device, after a seed was read.
  void ensure_dropout_states() {
    if (std::exchange(dropout_states_, true) || run_.scratch == Scratch::none) return;
    BlockId seed = allocate_bytes(size_of(DType::int64), Category::scratch);
    release_scratch(seed);
    const std::int64_t bytes = cudnn_rnn::dropout_states_bytes(gpu_.sm_count, gpu_.max_threads_per_sm);
    const BlockId states = allocate_bytes(bytes, Category::scratch);
    if (follower_ != nullptr) placed_scratch_.push_back({this->address(states), bytes});
  }

 private:
  std::vector<BlockId> scratch_;  // of the step's
  std::vector<std::int64_t> scratch_bytes_;
  std::vector<PlacedScratch> placed_scratch_;
  bool workspace_forward_ = false, workspace_backward_ = false, dropout_states_ = false;
};

}  // namespace gpuplan
