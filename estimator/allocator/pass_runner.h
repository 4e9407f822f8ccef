// The steps of a micro-batch's forward, loss and backward, in a training loop.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "estimator/allocator/loop_programs.h"
#include "estimator/allocator/placed_blocks.h"
#include "estimator/allocator/step_kernels.h"

namespace gpuplan {

class PassRunner {
 public:
  PassRunner(RunningLoop& loop, PlacedBlocks& blocks, LoopReadings& readings, OptimizerPrograms& optimizer,
             CollectivePrograms& collectives)
      : loop_(loop),
        blocks_(blocks),
        readings_(readings),
        optimizer_(optimizer),
        collectives_(collectives),
        kernels_(loop, blocks) {
    find_phases();
  }

  /// Of the loop's step, which is another one now.
  void find_phases() {
    phases_.clear();
    const std::vector<Schedule>& passes = loop_.rank->micro_batches.schedules;
    for (std::size_t p = 0; p < passes.size(); ++p) {
      std::vector<PassSteps>& of_stages = phases_.emplace_back();
      for (const RankStage& stage : loop_.rank->stages)
        of_stages.push_back(with_kernels(passes[p], stage.passes[p].steps));
      if (of_stages.empty()) of_stages.push_back(with_kernels(passes[p], phase_ranges(passes[p])));
    }
  }

  /// Whether optimizers in backward have no states yet.
  void updates_first(bool first) { updates_first_ = first; }

  /// Where the steps of the phase begin in the loop's pass.
  std::int32_t begin_of(Phase phase) const { return steps_of(phase).steps.begin; }
  /// All steps of the phase in the loop's pass.
  void run(Phase phase) {
    const Range steps = begin(phase);
    run(steps);
    end(steps);
  }
  /// Its steps from `from` to before `to`; kNone: from the first one, to the last one.
  void run_part(Phase phase, std::int32_t from, std::int32_t to) {
    const Range all = steps_of(phase).steps;
    const Range steps{from == kNone ? all.begin : from, to == kNone ? all.end : to};
    loop_.phase = phase;
    if (from == kNone) readings_.count_kernels(steps_of(phase).kernels);
    run(steps);
    end(steps);
  }
  /// Its first step alone, and the others.
  void run_first(Phase phase) {
    const Range steps = begin(phase);
    run({steps.begin, steps.begin + 1});
    loop_.step = kNone;
  }
  void run_after_first(Phase phase) {
    loop_.phase = phase;
    const Range steps = steps_of(phase).steps;
    run({steps.begin + 1, steps.end});
    end(steps);
  }

 private:
  struct PhaseSteps {
    Range steps;  // of the pass
    std::int64_t kernels = 0;
  };
  using PassSteps = std::array<PhaseSteps, kPhases>;

  static PassSteps with_kernels(const Schedule& schedule, const PhaseRanges& ranges) {
    PassSteps phases{};
    for (std::size_t phase = 0; phase < ranges.size(); ++phase) {
      phases[phase].steps = ranges[phase];
      for (std::int32_t i = ranges[phase].begin; i < ranges[phase].end; ++i)
        phases[phase].kernels += schedule.ops[index(i)].kernels;
    }
    return phases;
  }

  const PhaseSteps& steps_of(Phase phase) const {
    return phases_[loop_.pass][loop_.stage][static_cast<std::size_t>(phase)];
  }
  Range begin(Phase phase) {
    loop_.phase = phase;
    readings_.count_kernels(steps_of(phase).kernels);
    return steps_of(phase).steps;
  }
  void end(Range steps) {
    collectives_.run_before(steps.end);
    loop_.step = kNone;
  }

  void run(Range steps) {
    const Schedule& s = loop_.schedule();
    auto replacement = std::ranges::lower_bound(s.replacements, steps.begin, {}, &Schedule::Replacement::step);
    auto taken = std::ranges::lower_bound(s.taken, steps.begin, {}, &Schedule::Replacement::step);
    auto update = std::ranges::lower_bound(s.updates, steps.begin, {}, &Schedule::Update::step);
    auto constant = std::ranges::lower_bound(s.constants, steps.begin, {}, &Schedule::FirstRead::step);
    for (std::int32_t i = steps.begin; i < steps.end; ++i) {
      const ScheduledOp& step = s.ops[index(i)];
      collectives_.run_before(i);
      loop_.step = i;
      readings_.begin_step();
      for (; constant != s.constants.end() && constant->step == i; ++constant) make_constant(*constant);
      if (step.what != nullptr) kernels_.run(step);
      for (; update != s.updates.end() && update->step == i; ++update) update_parameter(*update);
      for (std::int32_t k = step.releases.begin; k < step.releases.end; ++k) blocks_.release(s.released[index(k)]);
      for (; replacement != s.replacements.end() && replacement->step == i; ++replacement)
        blocks_.replace(*replacement);
      for (; taken != s.taken.end() && taken->step == i; ++taken) blocks_.replace(*taken);
      readings_.end_step();
    }
  }

  void make_constant(const Schedule::FirstRead& read) {
    if (blocks_.block_of(read.buffer) != kNoBlock) return;
    blocks_.allocate(read.buffer);
    if (read.drops != kNone) blocks_.release(read.drops);
    if (loop_.observer != nullptr) loop_.observer->constant_is_made(read.constant);
  }

  // An optimizer's step within backward. Its first one makes states.
  void update_parameter(const Schedule::Update& u) {
    const OptimizerWork& work = loop_.rank->optimizer;
    const std::vector<OptimizerProgram>& programs = updates_first_ ? work.first_of : work.steady_of;
    if (index(u.parameter) < programs.size())
      optimizer_.run(programs[index(u.parameter)], OptimizerPart::step, u.parameter);
  }

  RunningLoop& loop_;
  PlacedBlocks& blocks_;
  LoopReadings& readings_;
  OptimizerPrograms& optimizer_;
  CollectivePrograms& collectives_;
  StepKernels kernels_;
  std::vector<std::vector<PassSteps>> phases_;  // of each pass, by stage
  bool updates_first_ = false;
};

}  // namespace gpuplan
