// What the kernels of a schedule's steps allocate: their results, and scratch while they run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "estimator/allocator/placed_blocks.h"
#include "estimator/operators/cudnn_rnn.h"
#include "estimator/operators/scratch.h"
#include "estimator/operators/scratch_program.h"
#include "estimator/operators/side_stream.h"

namespace gpuplan {

class StepKernels {
 public:
  StepKernels(const RunningLoop& loop, PlacedBlocks& blocks) : loop_(loop), blocks_(blocks) {}

  void run(const ScheduledOp& step) {
    const Schedule& s = loop_.schedule();
    const std::int32_t actions = step.scratch.end - step.scratch.begin;
    // A workspace once the results are there is all that most kernels have.
    const bool plain = actions == 0 || (actions == 1 && allocates(s.scratch[index(step.scratch.begin)]));
    if (!plain || step.dropout_states || loop_.observer != nullptr || makes_cublas_workspace(step) ||
        makes_lt_workspace(step))
      return run_with_scratch(step);
    for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k) blocks_.allocate(s.allocated[index(k)]);
    if (actions == 1) blocks_.use_scratch(s.scratch[index(step.scratch.begin)]);
  }

 private:
  void run_with_scratch(const ScheduledOp& step) {
    const Schedule& s = loop_.schedule();
    std::int32_t next = step.allocates.begin;
    auto program =
        std::span(s.scratch).subspan(index(step.scratch.begin), index(step.scratch.end - step.scratch.begin));
    const bool aside = !program.empty() && program.front() == kSideStream;
    if (aside) program = program.subspan(1);
    const std::int64_t stream = aside ? 1 : 0;
    const auto remaining = [&] {
      while (next < step.allocates.end) blocks_.allocate(s.allocated[index(next++)], stream);
    };
    if (std::ranges::find(program, kNextOutput) == program.end()) remaining();
    scratch_.clear();
    scratch_bytes_.clear();
    placed_scratch_.clear();
    if (step.dropout_states) ensure_dropout_states();
    const auto outputs_to_come = [&](std::size_t from) {
      return std::ranges::find(program.subspan(from), kNextOutput) != program.end();
    };
    bool ran = loop_.observer == nullptr;
    for (std::size_t i = 0; i < program.size(); ++i) {
      const std::int64_t n = program[i];
      if (n == kNextOutput) {
        blocks_.allocate(s.allocated[index(next++)], stream);
      } else if (allocates(n)) {
        scratch_.push_back(blocks_.allocate_scratch(n, stream));
        if (!ran) scratch_bytes_.push_back(n);
      } else {
        if (!ran && !outputs_to_come(i)) ran = follow();
        blocks_.release_scratch(scratch_[freed_by(n)]);
      }
    }
    remaining();
    if (!ran) follow();
    if (makes_cublas_workspace(step)) {
      cublas_workspace() = true;
      blocks_.allocate_scratch(cublas_workspace_bytes(loop_.rank->gpu));
    }
    if (makes_lt_workspace(step)) {
      lt_workspace_here() = true;
      blocks_.allocate_scratch(kCublasLtWorkspace);
    }
    for (BlockId& b : scratch_) blocks_.release_scratch(b);
  }

  // What the kernel computes is done when all it allocates is there and as much of its scratch as is still to be freed.
  bool follow() {
    for (std::size_t i = 0; i < scratch_.size(); ++i)
      placed_scratch_.push_back({blocks_.address(scratch_[i]), scratch_bytes_[i]});
    loop_.observer->run(loop_.pass, loop_.step, placed_scratch_);
    return true;
  }

  // Forward and backward run on two threads, each with a cuBLAS handle of its own.
  bool& cublas_workspace() { return loop_.phase == Phase::backward ? workspace_backward_ : workspace_forward_; }
  bool makes_cublas_workspace(const ScheduledOp& step) {
    const RunConfig& run = loop_.rank->run;
    return step.product && !cublas_workspace() && keeps_cublas_workspace(run.pytorch) && run.scratch != Scratch::none;
  }
  bool& lt_workspace_here() { return loop_.phase == Phase::backward ? lt_backward_ : lt_forward_; }
  bool makes_lt_workspace(const ScheduledOp& step) {
    const RunConfig& run = loop_.rank->run;
    return step.adds_bias && !lt_workspace_here() && lt_workspace(run.pytorch) == LtWorkspace::kept &&
           run.scratch != Scratch::none;
  }

  // aten/src/ATen/native/cudnn/RNN.cpp, get_dropout_state: made once a device, after a seed was read.
  void ensure_dropout_states() {
    if (std::exchange(dropout_states_, true) || loop_.rank->run.scratch == Scratch::none) return;
    BlockId seed = blocks_.allocate_scratch(size_of(DType::int64));
    blocks_.release_scratch(seed);
    const Gpu& gpu = loop_.rank->gpu;
    const std::int64_t bytes = cudnn_rnn::dropout_states_bytes(gpu.sm_count, gpu.max_threads_per_sm);
    const BlockId states = blocks_.allocate_scratch(bytes);
    if (loop_.observer != nullptr) placed_scratch_.push_back({blocks_.address(states), bytes});
  }

  const RunningLoop& loop_;
  PlacedBlocks& blocks_;
  std::vector<BlockId> scratch_;  // of the step's
  std::vector<std::int64_t> scratch_bytes_;
  std::vector<PlacedScratch> placed_scratch_;
  bool workspace_forward_ = false, workspace_backward_ = false, lt_forward_ = false, lt_backward_ = false;
  bool dropout_states_ = false;
};

}  // namespace gpuplan
