#include "estimator/distributed/pipeline_actions.h"

#include <algorithm>
#include <string>

#include "estimator/base/error.h"
#include "estimator/distributed/looped_actions.h"

namespace gpuplan {
namespace {

using ActionKind = PipelineAction::Kind;

/// Names in the schedule's function hold what was sent or received until they are bound anew.
class Writer {
 public:
  Writer(const Strategy& strategy, std::int64_t micro_batches)
      : first_(strategy.pipelining.stage == 0),
        last_(strategy.pipelining.stage + 1 == strategy.pipeline),
        keeps_outputs_(strategy.tensor_plan.sequence),
        stages_behind_(strategy.pipeline - strategy.pipelining.stage),
        count_(static_cast<std::int32_t>(micro_batches)) {}

  // ScheduleGPipe._step_microbatches; the sends of gradients, which hold them, are waited for at the end.
  void gpipe() {
    for (std::int32_t i = 0; i < count_; ++i) forward(i);
    for (std::int32_t i = 0; i < count_; ++i) sent(i);
    for (std::int32_t i = 0; i < count_; ++i) {
      receive_gradient(i);
      if (i > 0) let_received_go(i - 1);
      backward(i);
    }
    let_received_go(count_ - 1);
    for (std::int32_t i = 0; i < count_; ++i) let_gradient_go(i);
  }

  // Schedule1F1B._step_microbatches. Once nothing is left to go forward, what is received is held a turn longer.
  void one_f_one_b() {
    const std::int32_t ahead = std::min(count_, static_cast<std::int32_t>(stages_behind_));
    const std::int32_t cooldown = count_ - ahead + 1;
    for (std::int32_t i = 0; i < ahead; ++i) {
      forward(i);
      if (i > 0) sent(i - 1);
    }
    for (std::int32_t i = 0; i < count_; ++i) {
      const std::int32_t fused = i + ahead - 1;
      receive_gradient(i);
      if (i > cooldown) let_received_go(i - 1);
      if (fused < count_) sent(fused);
      backward(i);
      if (i < cooldown) let_received_go(i);
      if (i > 0) let_gradient_go(i - 1);
      if (i + ahead < count_) forward(i + ahead);
    }
    if (cooldown < count_) let_received_go(count_ - 1);
    let_gradient_go(count_ - 1);
  }

  std::vector<PipelineAction> take() {
    add(ActionKind::reduce, 0);
    return std::move(actions_);
  }

 private:
  void add(ActionKind kind, std::int32_t micro_batch) { actions_.push_back({kind, 0, micro_batch}); }
  void forward(std::int32_t i) {
    if (!first_) add(ActionKind::receive, i);
    add(ActionKind::forward, i);
  }
  // A DTensor is kept until its own backward has returned (stage.py, _output_slot_is_releasable).
  void sent(std::int32_t i) {
    if (!last_ && !keeps_outputs_) add(ActionKind::let_output_go, i);
  }
  void receive_gradient(std::int32_t i) {
    if (!last_) add(ActionKind::receive_gradient, i);
  }
  void backward(std::int32_t i) {
    add(ActionKind::backward, i);
    if (!last_ && keeps_outputs_) add(ActionKind::let_output_go, i);
  }
  void let_received_go(std::int32_t i) {
    if (!last_) add(ActionKind::let_received_go, i);
  }
  void let_gradient_go(std::int32_t i) {
    if (!first_) add(ActionKind::let_gradient_go, i);
  }

  bool first_, last_, keeps_outputs_;
  std::int64_t stages_behind_;  // with this one
  std::int32_t count_;
  std::vector<PipelineAction> actions_;
};

}  // namespace

std::vector<PipelineAction> pipeline_actions(const Strategy& strategy, std::int64_t micro_batches) {
  if (runs_actions(strategy.pipelining.schedule)) return looped_actions(strategy, micro_batches);
  Writer writer(strategy, micro_batches);
  if (strategy.pipelining.schedule == PipelineSchedule::gpipe) {
    writer.gpipe();
  } else {
    if (micro_batches < strategy.pipeline)
      throw Error("PyTorch refuses 1F1B with --micro-batches " + std::to_string(micro_batches) +
                      ": \"Number of microbatches (" + std::to_string(micro_batches) +
                      ") must be greater than or equal to the number of stages (" + std::to_string(strategy.pipeline) +
                      ")\"",
                  ErrorKind::usage)
          .help("--micro-batches " + std::to_string(strategy.pipeline) + ", or --pp-schedule gpipe");
    writer.one_f_one_b();
  }
  return writer.take();
}

std::int64_t most_in_flight(std::span<const PipelineAction> actions) {
  std::int64_t now = 0, most = 0;
  for (const PipelineAction& action : actions) {
    if (action.kind == ActionKind::forward) most = std::max(most, ++now);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) --now;
  }
  return most;
}

}  // namespace gpuplan
