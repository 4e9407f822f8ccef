#include "estimator/allocator/training_loop.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/allocator/evaluation.h"
#include "estimator/allocator/loop_programs.h"
#include "estimator/allocator/model_construction.h"
#include "estimator/allocator/pass_runner.h"
#include "estimator/allocator/pipelined_passes.h"
#include "estimator/allocator/placed_blocks.h"

namespace gpuplan {
namespace {

class TrainingLoop {
 public:
  TrainingLoop(BlockAllocator& allocator, const RankStep& rank, LoopObserver* observer, int steps, NextStep next = {})
      : steps_(steps),
        next_(std::move(next)),
        loop_{.rank = &rank, .observer = observer},
        readings_(loop_, allocator),
        blocks_(loop_, allocator, readings_),
        optimizer_(loop_, blocks_, readings_),
        collectives_(loop_, blocks_),
        evaluation_(loop_, blocks_, optimizer_),
        passes_(loop_, blocks_, readings_, optimizer_, collectives_),
        pipelined_(loop_, blocks_, readings_, passes_, collectives_) {}
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  /// Throws NoRoom where the allocator has none.
  LoopReplay replay() {
    if (loop_.observer != nullptr) loop_.observer->begins(loop_);
    build_model(loop_, blocks_, optimizer_, collectives_);
    const RunConfig& run = loop_.rank->run;
    const int reported = run.mode == Mode::train && run.first_step ? 0 : steps_ - 1;
    for (int i = 0; i < steps_; ++i) {
      readings_.begin_training_step(i == 0 || i == steps_ - 1, i == reported, i == steps_ - 1);
      loop_.training_step = i;
      train(i);
    }
    return readings_.take();
  }

  /// The same of steps that differ, each of which is told.
  void replay_each(const StepTold& told) {
    build_model(loop_, blocks_, optimizer_, collectives_);
    for (int i = 0; i < steps_; ++i) {
      loop_.training_step = i;
      go_on(i);
      readings_.begin_training_step(true, true, i > 0);
      train(i);
      told(i, readings_.take_step());
    }
  }

  const RunningLoop& where() const { return loop_; }

 private:
  // With the step of another batch, of which nothing has happened yet.
  void go_on(int i) {
    std::shared_ptr<const RankStep> to = next_(i);
    if (to.get() != loop_.rank) {
      loop_.pass = 0;
      if (loop_.rank->run.evaluates) end_evaluation();
      if (to->run.evaluates)
        begin_evaluation(*to);
      else if (to.get() != loop_.rank)
        blocks_.go_on(*loop_.rank, *to);
      loop_.rank = to.get();
      readings_.go_on();
      passes_.find_phases();
    }
    now_ = std::move(to);
  }

  // A trainer has zeroed the gradients by then.
  void begin_evaluation(const RankStep& to) {
    if (loop_.rank->run.like != Like::pytorch) zero_gradients();
    trained_ = std::move(now_);
    blocks_.set_aside(*loop_.rank, to);
  }
  void end_evaluation() {
    evaluation_.leave();
    blocks_.resume();
    loop_.rank = trained_.get();
    now_ = std::move(trained_);
  }

  void evaluate() {
    loop_.phase = Phase::start;
    blocks_.note_peak();
    evaluation_.take_batch();
    record(Phase::start);
    passes_.run(Phase::forward);
    passes_.run(Phase::loss);
    evaluation_.take_results();
    record(Phase::forward);
  }

  void train(int i) {
    const RunConfig& run = loop_.rank->run;
    if (run.evaluates) return evaluate();
    loop_.phase = Phase::start;
    blocks_.note_peak();
    const bool forward_first = run.gradients_live_in_forward();
    if (i > 0 && !forward_first) zero_gradients();
    take_batch(i == 0);
    record(Phase::start);
    if (run.mode == Mode::infer) {
      follow_micro_batch(0);
      infer(i > 0);
    } else if (!loop_.rank->pipeline.empty()) {
      pipelined_.run();
      update(i);
    } else {
      for (std::int64_t m = 0; m < run.micro_batches; ++m) {
        loop_.pass = m == 0 ? 0 : loop_.rank->micro_batches.schedules.size() - 1;
        if (m > 0 && run.like != Like::trainer) take_batch(false);
        silent_ = m + 1 < run.micro_batches;
        follow_micro_batch(m);
        pass(m, i > 0 || m > 0, i == 0 && m == 0, i > 0 && m == 0 && forward_first);
        if (silent_) optimizer_.run_unobserved(loop_.rank->optimizer.trainer.end);
      }
      update(i);
    }
    record(Phase::end);
    if (run.save != SavedCheckpoint::none && i == steps_ - 1) save();
  }

  void save() {
    loop_.phase = Phase::save;
    collectives_.begin_saving();
    optimizer_.run_unobserved(loop_.rank->saving);
    record(Phase::save);
  }

  // A trainer's data loader makes each step's batch anew, beside the last one, and so does who has batches that differ.
  void take_batch(bool first) {
    const RankStep& rank = *loop_.rank;
    if (rank.run.mode == Mode::infer || (rank.run.like == Like::pytorch && !next_)) return;
    if (!first)
      for (const TensorId t : rank.graph.inputs) blocks_.move(rank.graph.tensor(t).buffer);
    optimizer_.run_unobserved(rank.optimizer.trainer.batch);
  }

  void follow_micro_batch(std::int64_t number) {
    if (loop_.observer != nullptr) loop_.observer->micro_batch(number);
  }
  void record(Phase phase) {
    if (loop_.observer != nullptr) loop_.observer->phase_ended(loop_.training_step, phase);
    readings_.record(phase, silent_);
  }

  void zero_gradients() {
    for (const BufferId g : loop_.rank->micro_batches.schedules.front().gradients) blocks_.release(g);
    optimizer_.release_fp32_gradients();
    collectives_.zero_gradients();
  }

  // What the loop's names hold of the results: model_loss is held beside the output.
  struct Held {
    BlockId block = kNoBlock;
    BufferId buffer = kNone;
  };
  std::vector<Held> held_results() const {
    const Schedule& s = loop_.schedule();
    std::vector<Held> held;
    for (const BufferId b : {s.output, s.loss, s.model_loss}) held.push_back({blocks_.block_of(b), b});
    for (const BufferId b : s.beside_results) held.push_back({blocks_.block_of(b), b});
    return held;
  }
  void release_results() {
    for (const Held& h : held_results())
      if (h.buffer != kNone) blocks_.release(h.buffer);
  }

  void infer(bool result_is_held) {
    const Schedule& s = loop_.schedule();
    const bool plain = loop_.rank->run.loop == Loop::plain;
    const BlockId held_output = blocks_.block_of(s.output);
    passes_.run(Phase::forward);
    if (plain && result_is_held) blocks_.release_held(held_output, s.output);
    record(Phase::forward);
    if (!plain && s.output != kNone) blocks_.release(s.output);
    for (const BufferId b : s.beside_results) blocks_.release(b);
  }

  // Forward, loss and backward of one micro-batch. A plain loop's names hold the last results until they are bound
  // anew.
  void pass(std::int64_t number, bool result_is_held, bool first, bool zeroes) {
    const bool plain = loop_.rank->run.loop == Loop::plain;
    const std::vector<Held> last = held_results();
    collectives_.begin_forward(number, loop_.rank->run.micro_batches);
    passes_.run(Phase::forward);
    record(Phase::forward);
    passes_.run(Phase::loss);
    if (plain && result_is_held)
      for (const Held& h : last) blocks_.release_held(h.block, h.buffer);
    optimizer_.run_unobserved(loop_.rank->optimizer.trainer.loss);
    record(Phase::loss);
    loop_.phase = Phase::backward;
    if (zeroes) zero_gradients();
    passes_.updates_first(first);
    if (first) optimizer_.run(loop_.rank->optimizer.scaler, OptimizerPart::scaler);
    passes_.run(Phase::backward);
    optimizer_.run_unobserved(loop_.rank->optimizer.trainer.backward);
    // A local name of accelerator.backward(), unlike the model's loss.
    if (loop_.rank->run.like == Like::accelerate) blocks_.release(loop_.schedule().loss);
    record(Phase::backward);
    // The recorded loop deletes its output and loss between backward and step(), unless it is `plain`.
    if (!plain && (loop_.rank->run.like != Like::lightning || silent_)) release_results();
  }

  void update(int i) {
    const OptimizerWork& work = loop_.rank->optimizer;
    loop_.phase = Phase::clip;
    if ((loop_.rank->run.clip_grad_norm && !collectives_.clips_within_step()) || !work.clip.events.empty()) {
      if (i == 0) collectives_.begin_first_clip();
      optimizer_.run(work.clip, OptimizerPart::clip);
      optimizer_.run_unobserved(work.trainer.clipped);
      record(Phase::clip);
    }
    loop_.phase = Phase::optimizer;
    collectives_.begin_optimizer();
    const std::vector<OptimizerProgram>& parts = i == 0 ? work.first_of : work.steady_of;
    for (std::size_t part = 0; part < collectives_.optimizer_parts(); ++part) {
      collectives_.begin_part(part);
      if (part < parts.size()) optimizer_.run(parts[part], OptimizerPart::step);
      collectives_.end_part(part);
    }
    optimizer_.run(i == 0 ? work.first : work.steady, OptimizerPart::step);
    collectives_.end_optimizer();
    if (loop_.rank->run.like == Like::lightning) release_results();  // a local name of step(closure)
    record(Phase::optimizer);
    optimizer_.run_unobserved(work.trainer.end);
  }

  int steps_;
  NextStep next_;                            // where steps differ
  std::shared_ptr<const RankStep> now_;      // what loop_ is at, then
  std::shared_ptr<const RankStep> trained_;  // what it was at before an evaluation
  RunningLoop loop_;
  LoopReadings readings_;
  PlacedBlocks blocks_;
  OptimizerPrograms optimizer_;
  CollectivePrograms collectives_;
  Evaluation evaluation_;
  PassRunner passes_;
  PipelinedPasses pipelined_;
  bool silent_ = false;  // of the phases of a step's passes the last ones are told
};

LimitedReplay limited(BlockAllocator& allocator, TrainingLoop& loop, const std::function<void()>& replay) {
  LimitedReplay limited;
  try {
    replay();
  } catch (const NoRoom&) {
    const RunningLoop& at = loop.where();
    limited = {0, true, allocator.out_of_memory(), at.training_step, at.phase, at.step, at.pass};
  }
  limited.retries = allocator.retry_count();
  return limited;
}

}  // namespace

LimitedReplay replay_loop(BlockAllocator& allocator, const RankStep& rank, LoopObserver* observer, int steps,
                          LoopReplay* whole) {
  TrainingLoop loop(allocator, rank, observer, steps);
  return limited(allocator, loop, [&] {
    LoopReplay replay = loop.replay();
    if (whole != nullptr) *whole = std::move(replay);
  });
}

LimitedReplay replay_each(BlockAllocator& allocator, int steps, const NextStep& next, const StepTold& told) {
  const std::shared_ptr<const RankStep> first = next(0);
  TrainingLoop loop(allocator, *first, nullptr, steps, next);
  return limited(allocator, loop, [&] { loop.replay_each(told); });
}

}  // namespace gpuplan
