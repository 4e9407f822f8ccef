// The micro-batches of a pipeline's stage, of which several are in flight at once.
#pragma once

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

  /// One step of a stage. "forward" ends when the first gradient is asked for.
  void run() {
    if (!std::exchange(begun_, true)) {
      begin();
      infer_shapes();
    }
    let_outputs_go();
    bool forward = true;
    for (const PipelineAction& action : loop_.rank->pipeline) {
      if (forward && (action.kind == Kind::receive_gradient || action.kind == Kind::backward)) {
        record(Phase::forward);
        forward = false;
      }
      run(action);
    }
    collectives_.end_micro_batches();
    if (is_last() && loop_.rank->strategy.pipelining.returns_outputs) merge_outputs(loop_.schedule());
    record(Phase::backward);
    if (is_last())
      for (std::size_t m = 0; m < count(); ++m) let_loss_go(m);
  }

 private:
  using Kind = PipelineAction::Kind;

  // What a schedule allocates but gradients is of each micro-batch.
  void begin() {
    const RankStep& rank = *loop_.rank;
    const Schedule& s = rank.micro_batches.schedules.back();
    std::vector<char> own(s.buffers.size(), 0);
    for (const Schedule& pass : rank.micro_batches.schedules) {
      for (const BufferId b : pass.allocated) own[index(b)] = 1;
      for (const Schedule::Replacement& r : pass.replacements) own[index(r.new_buffer)] = 0;
    }
    for (const BufferId g : rank.schedule().gradient_of) own[index(g)] = 0;
    if (!is_first()) own[index(states())] = 1;
    std::vector<BufferId> ids;
    for (std::size_t b = 0; b < own.size(); ++b)
      if (own[b] != 0) ids.push_back(static_cast<BufferId>(b));
    blocks_.keep_apart(count(), std::move(ids));
  }

  // Buffers are copied before, since a forward may change them (_pre_metadata_inference_backup).
  void infer_shapes() {
    loop_.pass = kInferringSchedule;
    std::vector<BlockId> copies;
    for (const BufferTensor& b : loop_.rank->graph.named_buffers)
      copies.push_back(
          blocks_.allocate_bytes(blocks_.buffer(buffer_of(loop_.rank->graph, b.tensor)).bytes, Category::buffers));
    if (!is_first()) blocks_.allocate(states());
    for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward}) run_all(phase, MicroBatch::inferring);
    const Schedule& s = loop_.schedule();
    for (const BufferId b : s.beside_results) blocks_.release(b);
    for (const BufferId b : {s.output, s.loss, is_first() ? kNone : states(), is_last() ? kNone : received_gradient(s)})
      if (b != kNone) blocks_.release(b);
    for (BlockId& copy : copies) blocks_.release_as(copy, Category::buffers);
  }

  void run(const PipelineAction& action) {
    const auto number = static_cast<std::size_t>(action.micro_batch);
    blocks_.switch_to(number);
    loop_.pass = number == 0 ? 0 : loop_.rank->micro_batches.schedules.size() - 1;
    const MicroBatch kind = number == 0 ? MicroBatch::first : MicroBatch::middle;
    const Schedule& s = loop_.schedule();
    switch (action.kind) {
      case Kind::receive: blocks_.allocate(states()); break;
      case Kind::forward:
        if (loop_.observer != nullptr) loop_.observer->micro_batch(action.micro_batch);
        run_all(Phase::forward, kind);
        run_all(Phase::loss, kind);
        break;
      case Kind::let_output_go: blocks_.release(s.loss); break;
      case Kind::receive_gradient:
        collectives_.turn_to(kind, Phase::backward, passes_.begin_of(Phase::backward));
        passes_.run_first(Phase::backward);
        break;
      case Kind::backward: run_backward(s, kind); break;
      case Kind::let_received_go: blocks_.release(received_gradient(s)); break;
      case Kind::let_gradient_go:
        for (const BufferId b : s.beside_results) blocks_.release(b);
        break;
    }
  }

  void run_all(Phase phase, MicroBatch kind) {
    collectives_.turn_to(kind, phase, passes_.begin_of(phase));
    passes_.run(phase);
  }

  // A loss holds the graph, and that the leaf: what the last stage was given waits with it.
  void run_backward(const Schedule& s, MicroBatch kind) {
    if (is_last()) {
      run_all(Phase::backward, kind);
      if (!loop_.rank->strategy.pipelining.returns_outputs && s.output != kNone) blocks_.release(s.output);
      return;
    }
    collectives_.turn_to(kind, Phase::backward, passes_.begin_of(Phase::backward) + 1);
    passes_.run_after_first(Phase::backward);
    if (!is_first()) return blocks_.release(states());
    for (const BufferId b : s.beside_results) blocks_.release(b);  // of the graph, which what was sent no longer holds
  }

  void let_loss_go(std::size_t number) {
    blocks_.switch_to(number);
    blocks_.release(loop_.schedule().loss);
    if (!is_first() && !outputs_hold_graph()) blocks_.release(states());
  }

  // clear_runtime_states() at the beginning of the next step.
  void let_outputs_go() {
    if (!is_last() || loop_.schedule().output == kNone) return;
    for (std::size_t m = 0; m < count(); ++m) {
      blocks_.switch_to(m);
      blocks_.release(loop_.schedule().output);
      if (outputs_hold_graph()) blocks_.release(states());
    }
  }

  // backward_one_chunk() detaches what the last stage returns, but a view: so are the logits that tensor parallelism
  // has gathered.
  bool outputs_hold_graph() const {
    return is_last() && loop_.rank->run.tensor_ranks > 1 && loop_.rank->strategy.pipelining.returns_outputs;
  }

  // torch.cat, of what step() returns
  void merge_outputs(const Schedule& s) {
    if (s.output == kNone) return;
    BlockId merged = blocks_.allocate_bytes(
        checked_mul(blocks_.buffer(s.output).bytes, static_cast<std::int64_t>(count())), Category::activations);
    blocks_.release_as(merged, Category::activations);
  }

  void record(Phase phase) {
    if (loop_.observer != nullptr) loop_.observer->phase_ended(loop_.training_step, phase);
    readings_.record(phase, false);
  }

  bool is_first() const { return loop_.rank->strategy.pipelining.stage == 0; }
  bool is_last() const { return loop_.rank->strategy.pipelining.stage + 1 == loop_.rank->strategy.pipeline; }
  std::size_t count() const { return static_cast<std::size_t>(loop_.rank->run.micro_batches); }
  BufferId states() const { return buffer_of(loop_.rank->graph, loop_.rank->graph.inputs.front()); }

  RunningLoop& loop_;
  PlacedBlocks& blocks_;
  LoopReadings& readings_;
  PassRunner& passes_;
  CollectivePrograms& collectives_;
  bool begun_ = false;
};

}  // namespace gpuplan
