// The micro-batches of a pipeline's stages, of which several are in flight at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/allocator/pass_runner.h"
#include "estimator/allocator/placed_blocks.h"

namespace gpuplan {

class PipelinedPasses {
 public:
  PipelinedPasses(RunningLoop& loop, PlacedBlocks& blocks, LoopReadings& readings, PassRunner& passes,
                  CollectivePrograms& collectives)
      : loop_(loop), blocks_(blocks), readings_(readings), passes_(passes), collectives_(collectives) {}

  /// One step of a rank. "forward" ends when the first gradient is asked for.
  void run() {
    collectives_.begin_step();
    if (!std::exchange(begun_, true)) {
      begin();
      infer_shapes();
    }
    let_outputs_go();
    bool forward = true;
    for (const PipelineAction& action : loop_.rank->pipeline) {
      if (forward && (action.kind == Kind::receive_gradient || action.kind == Kind::backward ||
                      action.kind == Kind::backward_input)) {
        record(Phase::forward);
        forward = false;
      }
      run(action);
    }
    if (const RankStage& last = stages().back(); last.last) {
      if (returns_outputs()) merge_outputs(last);
      collectives_.end_step();
      record(Phase::backward);
      for (std::size_t m = 0; m < count(); ++m) let_loss_go(m);
    } else {
      collectives_.end_step();
      record(Phase::backward);
    }
  }

 private:
  using Kind = PipelineAction::Kind;

  // What a schedule allocates but gradients is of each micro-batch.
  void begin() {
    const RankStep& rank = *loop_.rank;
    std::vector<char> own(rank.micro_batches.schedules.back().buffers.size(), 0);
    for (const Schedule& pass : rank.micro_batches.schedules) {
      for (const BufferId b : pass.allocated) own[index(b)] = 1;
      for (const Schedule::Replacement& r : pass.replacements) own[index(r.new_buffer)] = 0;
    }
    for (const BufferId g : rank.schedule().gradient_of) own[index(g)] = 0;
    for (const RankStage& stage : stages())
      if (!stage.first) own[index(stage.states)] = 1;
    std::vector<BufferId> ids;
    for (std::size_t b = 0; b < own.size(); ++b)
      if (own[b] != 0) ids.push_back(static_cast<BufferId>(b));
    blocks_.keep_apart(count() * stages().size(), std::move(ids));
    gathered_.assign(stages().size(), 0);
    choose_passes();
  }

  // The first micro-batch that is through makes the gradients.
  void choose_passes() {
    const RankStep& rank = *loop_.rank;
    const std::size_t passes = rank.micro_batches.schedules.size();
    pass_of_.assign(stages().size(), std::vector<std::size_t>(count(), passes - 1));
    std::vector<char> made(stages().size(), 0);
    for (const PipelineAction& action : rank.pipeline) {
      if (action.kind != Kind::backward && action.kind != Kind::backward_weight) continue;
      std::size_t& pass = pass_of_[index(action.stage)][index(action.micro_batch)];
      if (action.kind == Kind::backward && passes > kWholeSchedule + 1) pass = kWholeSchedule;
      if (std::exchange(made[index(action.stage)], 1) == 0) pass = 0;
    }
  }

  // Buffers are copied before, since a forward may change them (_pre_metadata_inference_backup).
  void infer_shapes() {
    std::vector<BlockId> copies;
    for (const RankStage& stage : stages())
      for (const BufferId b : stage.named_buffers)
        copies.push_back(blocks_.allocate_bytes(blocks_.buffer(b).bytes, Category::buffers));
    loop_.pass = kInferringSchedule;
    for (std::size_t s = 0; s < stages().size(); ++s) {
      turn_to_stage(s, 0);
      if (!stage().first) blocks_.allocate(stage().states);
      run_all(Phase::forward, MicroBatch::inferring);
    }
    for (std::size_t s = stages().size(); s-- > 0;) {
      turn_to_stage(s, 0);
      for (const Phase phase : {Phase::loss, Phase::backward}) run_all(phase, MicroBatch::inferring);
      const RankStage& of = stage();
      for (const BufferId b : pass().beside_results) blocks_.release(b);
      for (const BufferId b : {of.output, of.loss, of.states, pass().received_gradient})
        if (b != kNone) blocks_.release(b);
    }
    for (BlockId& copy : copies) blocks_.release_as(copy, Category::buffers);
  }

  void run(const PipelineAction& action) {
    turn_to_stage(static_cast<std::size_t>(action.stage), static_cast<std::size_t>(action.micro_batch));
    loop_.pass = pass_of_[index(action.stage)][index(action.micro_batch)];
    const MicroBatch kind = loop_.pass == 0 ? MicroBatch::first : MicroBatch::middle;
    using Events = CollectiveMemory::StageEvents;
    switch (action.kind) {
      case Kind::receive: blocks_.allocate(stage().states); break;
      case Kind::forward:
        if (loop_.observer != nullptr) loop_.observer->micro_batch(action.micro_batch);
        copy_out();
        run_all(Phase::forward, kind);
        run_all(Phase::loss, kind);
        hand_on_output(action);
        break;
      case Kind::let_output_go: blocks_.release(stage().loss); break;
      case Kind::receive_gradient:
        collectives_.turn_to(kind, Phase::backward, passes_.begin_of(Phase::backward));
        passes_.run_first(Phase::backward);
        break;
      case Kind::backward:
        copy_out();
        run_backward(kind);
        hand_back_gradient(action);
        break;
      case Kind::backward_input:
        copy_out();
        if (!stage().first) run_backward_of_input(kind);
        hand_back_gradient(action);
        break;
      case Kind::backward_weight:
        copy_out();
        if (stage().first)
          run_backward(kind);
        else
          run_backward_of_weights(kind);
        break;
      case Kind::let_received_go: blocks_.release(pass().received_gradient); break;
      case Kind::let_gradient_go:
        for (const BufferId b : pass().beside_results) blocks_.release(b);
        break;
      case Kind::unshard:
        collectives_.run_of_stage(loop_.stage, &Events::unshard);
        gathered_[loop_.stage] = 1;
        break;
      case Kind::reshard: collectives_.run_of_stage(loop_.stage, &Events::reshard); break;
      case Kind::reduce: collectives_.run_of_stage(loop_.stage, &Events::reduce); break;
    }
  }

  void copy_out() {
    if (std::exchange(gathered_[loop_.stage], 0) != 0)
      collectives_.run_of_stage(loop_.stage, &CollectiveMemory::StageEvents::copy_out);
  }

  void run_all(Phase phase, MicroBatch kind) {
    collectives_.turn_to(kind, phase, passes_.begin_of(phase));
    passes_.run(phase);
  }

  // A loss holds the graph, and that the leaf: what the last stage was given waits with it.
  void run_backward(MicroBatch kind) {
    const RankStage& of = stage();
    if (of.last) {
      run_all(Phase::backward, kind);
      if (!returns_outputs() && of.output != kNone) blocks_.release(of.output);
      return;
    }
    collectives_.turn_to(kind, Phase::backward, passes_.begin_of(Phase::backward) + 1);
    passes_.run_after_first(Phase::backward);
    if (!of.first) return blocks_.release(of.states);
    for (const BufferId b : pass().beside_results)
      blocks_.release(b);  // of the graph, which what was sent no longer holds
  }

  // The next stage, where the same rank has it, is given the output itself (set_local_fwd_input), and the one before
  // the gradient, which what was given holds as its own, too (set_local_bwd_input; stage_backward_input).
  bool is_local(std::size_t stage) const {
    return stage > 0 && stage < stages().size() && stages()[stage - 1].number + 1 == stages()[stage].number;
  }
  void hand_on_output(const PipelineAction& action) {
    const auto next = static_cast<std::size_t>(action.stage) + 1;
    if (!is_local(next)) return;
    const BlockId output = blocks_.share(stage().loss, stages()[next].states);
    turn_to_stage(next, static_cast<std::size_t>(action.micro_batch));
    blocks_.place(stage().states, output);
  }
  void hand_back_gradient(const PipelineAction& action) {
    const auto from = static_cast<std::size_t>(action.stage);
    if (!is_local(from)) return;
    const std::size_t before = pass_of_[from - 1][index(action.micro_batch)];
    const BufferId received = stages()[from - 1].passes[before].received_gradient, own = pass().states_gradient;
    const BlockId gradient =
        action.kind == Kind::backward_input ? blocks_.share(own, received) : blocks_.take(own, received);
    turn_to_stage(from - 1, static_cast<std::size_t>(action.micro_batch));
    blocks_.place(received, gradient);
  }

  // The loss is detached, and so is what the last stage returns: nothing but the micro-batch itself waits with it.
  void run_backward_of_input(MicroBatch kind) {
    const RankStage& of = stage();
    const std::int32_t begun = passes_.begin_of(Phase::backward);
    const std::int32_t from = of.last ? kNone : begun + 1;  // what the stage behind has sent is there
    collectives_.turn_to(kind, Phase::backward, from == kNone ? begun : from);
    passes_.run_part(Phase::backward, from, pass().weights_begin);
    if (of.last && !returns_outputs() && of.output != kNone) blocks_.release(of.output);
  }
  void run_backward_of_weights(MicroBatch kind) {
    collectives_.turn_to(kind, Phase::backward, pass().weights_begin);
    passes_.run_part(Phase::backward, pass().weights_begin, kNone);
    blocks_.release(stage().states);
    if (is_local(loop_.stage)) blocks_.release(pass().states_gradient);
  }

  void let_loss_go(std::size_t number) {
    turn_to_stage(stages().size() - 1, number);
    blocks_.release(stage().loss);
    if (!stage().first && !outputs_hold_graph()) blocks_.release(stage().states);
  }

  // clear_runtime_states() at the beginning of the next step.
  void let_outputs_go() {
    const RankStage& last = stages().back();
    if (!last.last || last.output == kNone) return;
    for (std::size_t m = 0; m < count(); ++m) {
      turn_to_stage(stages().size() - 1, m);
      blocks_.release(last.output);
      if (outputs_hold_graph()) blocks_.release(last.states);
    }
  }

  // backward_one_chunk() detaches what the last stage returns, but a view: so are the logits that tensor parallelism
  // has gathered.
  bool outputs_hold_graph() const {
    const RunConfig& run = loop_.rank->run;
    return run.tensor_ranks > 1 && !run.tensor_plan.loss && returns_outputs();
  }

  // torch.cat, of what step() returns
  void merge_outputs(const RankStage& last) {
    if (last.output == kNone) return;
    BlockId merged = blocks_.allocate_bytes(
        checked_mul(blocks_.buffer(last.output).bytes, static_cast<std::int64_t>(count())), Category::activations);
    blocks_.release_as(merged, Category::activations);
  }

  void record(Phase phase) {
    if (loop_.observer != nullptr) loop_.observer->phase_ended(loop_.training_step, phase);
    readings_.record(phase, false);
  }

  void turn_to_stage(std::size_t stage, std::size_t micro_batch) {
    loop_.stage = stage;
    blocks_.switch_to(stage * count() + micro_batch);
  }
  const std::vector<RankStage>& stages() const { return loop_.rank->stages; }
  const RankStage& stage() const { return stages()[loop_.stage]; }
  const RankStage::Pass& pass() const { return stage().passes[loop_.pass]; }
  bool returns_outputs() const { return loop_.rank->strategy.pipelining.returns_outputs; }
  std::size_t count() const { return static_cast<std::size_t>(loop_.rank->run.micro_batches); }

  RunningLoop& loop_;
  PlacedBlocks& blocks_;
  LoopReadings& readings_;
  PassRunner& passes_;
  CollectivePrograms& collectives_;
  std::vector<std::vector<std::size_t>> pass_of_;  // by stage and micro-batch: which schedule it runs
  std::vector<char> gathered_;                     // by stage: what was gathered waits to be copied out
  bool begun_ = false;
};

}  // namespace gpuplan
