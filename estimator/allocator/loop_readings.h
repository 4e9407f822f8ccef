// The current position of a training loop, and its memory readings: per phase, over time, and at the peak of allocated
// bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "estimator/allocator/block_allocator.h"
#include "estimator/allocator/loop_observer.h"
#include "estimator/allocator/loop_replay.h"
#include "estimator/base/integers.h"
#include "estimator/distributed/rank_step.h"
#include "estimator/schedule/phase.h"

namespace gpuplan {

/// Shared by the parts of a running loop. Only the loop changes it.
struct RunningLoop {
  const RankStep* rank;              // what it runs now
  LoopObserver* observer = nullptr;  // or nobody
  int training_step = -1;            // -1: while the model and the batch are made
  Phase phase = Phase::start;
  std::size_t pass = 0;       // index of the micro-batch schedule
  std::size_t stage = 0;      // which of the rank's, in a pipeline
  std::int32_t step = kNone;  // of that schedule; kNone outside of its steps

  const Schedule& schedule() const { return rank->micro_batches.schedules[pass]; }
};

class LoopReadings {
 public:
  LoopReadings(const RunningLoop& loop, BlockAllocator& allocator) : loop_(loop), allocator_(allocator) {
    result_.timeline.reserve(loop.rank->micro_batches.schedules.back().ops.size() + kPhases);
    go_on();
  }

  /// The loop's step is another one.
  void go_on() { result_.charged_bytes.assign(loop_.rank->micro_batches.schedules.back().buffers.size(), 0); }

  /// `records`: readings are taken for its phases; `reports`: also for its peak and its timeline.
  void begin_training_step(bool records, bool reports, bool steady) {
    records_ = records;
    reports_ = reports;
    steady_ = steady;
    allocator_.reset_peaks();
    highest_ = -1;
  }
  bool reports() const { return reports_; }

  void count_allocation() { ++result_.allocations; }
  void count_kernels(std::int64_t kernels) {
    if (records_) kernels_ += kernels;
  }
  void charge(BufferId buffer, std::int64_t bytes) { result_.charged_bytes[index(buffer)] = bytes; }

  /// Of a step that is reported: `now` bytes are allocated.
  void note_peak(std::int64_t now, const std::array<std::int64_t, kCategories>& by_category) {
    step_peak_ = std::max(step_peak_, now);
    if (now <= highest_) return;
    highest_ = now;
    result_.at = {loop_.phase, loop_.step, loop_.pass, by_category};
  }
  void begin_step() {
    if (reports_) step_peak_ = allocator_.allocated_bytes();
  }
  void end_step() {
    if (reports_) result_.timeline.push_back({loop_.phase, allocator_.allocated_bytes(), step_peak_});
  }

  /// A phase has ended. With several micro-batches only the phases of the last one are recorded; the others are
  /// `silent`.
  void record(Phase phase, bool silent) {
    if (!records_) return;
    PhaseRow row;
    row.steady = steady_;
    row.phase = phase;
    row.live = {allocator_.requested_bytes(), allocator_.allocated_bytes(), allocator_.reserved_bytes()};
    row.peak = {allocator_.peak_requested_bytes(), allocator_.peak_allocated_bytes(), allocator_.peak_reserved_bytes()};
    row.kernels = std::exchange(kernels_, 0);
    allocator_.reset_peaks();
    if (reports_) {
      Reading& p = result_.peak;
      p.requested_bytes = std::max(p.requested_bytes, row.peak.requested_bytes);
      p.allocated_bytes = std::max(p.allocated_bytes, row.peak.allocated_bytes);
      p.reserved_bytes = std::max(p.reserved_bytes, row.peak.reserved_bytes);
      if (phase != Phase::forward && phase != Phase::loss && phase != Phase::backward)
        result_.timeline.push_back({phase, row.live.allocated_bytes, row.peak.allocated_bytes});
    }
    if (!silent) result_.phases.push_back(row);
  }

  /// Of a reported step that has ended, and nothing of it is kept.
  StepReading take_step() {
    const StepReading step{result_.peak, result_.phases.back().live, result_.at};
    result_.peak = {};
    result_.phases.clear();
    result_.timeline.clear();
    return step;
  }

  /// When the loop has ended.
  LoopReplay take() {
    result_.segments = allocator_.segment_count();
    result_.inactive_split_bytes = allocator_.inactive_split_bytes();
    return std::move(result_);
  }

 private:
  const RunningLoop& loop_;
  BlockAllocator& allocator_;
  LoopReplay result_;
  bool records_ = false, reports_ = false, steady_ = false;
  std::int64_t highest_ = -1, step_peak_ = 0, kernels_ = 0;
};

}  // namespace gpuplan
