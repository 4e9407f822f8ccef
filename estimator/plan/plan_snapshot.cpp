#include "estimator/plan/plan_snapshot.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "estimator/allocator/loop_readings.h"
#include "estimator/allocator/training_loop.h"
#include "estimator/plan/run_names.h"
#include "estimator/snapshot/snapshot_recorder.h"

namespace gpuplan {
namespace {

// The host calls one operation after another; the GPU runs each once it has been called and the one before is done.
class LoopClock {
 public:
  explicit LoopClock(const ModelledTimes* times) : times_(times) {}

  bool runs() const { return times_ != nullptr; }
  std::int64_t host_microseconds() const { return std::llround(host_ * 1e6); }
  void operation(std::string name, std::size_t steps, std::size_t step) {
    if (runs() && steps == times_->works.size()) add(std::move(name), times_->works[step]);
  }
  void whole(std::string name, double seconds) {
    if (seconds > 0) add(std::move(name), {seconds, seconds});
  }
  void ended(Phase phase) {
    if (!runs()) return;
    if (phase == Phase::start) whole("copy of the batch", times_->copy_seconds);
    if (phase == Phase::clip) whole("clip_grad_norm_()", times_->clip_seconds);
    if (phase == Phase::optimizer) whole("optimizer.step()", times_->optimizer_seconds);
  }
  std::vector<TimedOperation> take() { return std::move(operations_); }

 private:
  void add(std::string name, const StepWork& work) {
    operations_.push_back({name, false, host_, work.call});
    host_ += work.call;
    gpu_ = std::max(gpu_, host_);
    operations_.push_back({std::move(name), true, gpu_, work.run});
    gpu_ += work.run;
  }

  const ModelledTimes* times_;
  double host_ = 0, gpu_ = 0;
  std::vector<TimedOperation> operations_;
};

class PlanRecorder final : public LoopObserver {
 public:
  PlanRecorder(const Plan& plan, SegmentOrder order, const ModelledTimes* times)
      : plan_(plan), recorder_(plan.model->name, order), clock_(times) {
    if (times != nullptr) recorder_.stop_counting();
  }

  SegmentSource& segments() { return recorder_; }
  Snapshot take(const CachingAllocator& allocator) { return recorder_.take(allocator, plan_.step.run.alloc_conf); }
  std::vector<TimedOperation> operations() { return clock_.take(); }

  // --- LoopObserver

  void begins(const RunningLoop& loop) override { loop_ = &loop; }
  bool follows_scratch() const override { return true; }
  void allocated(std::uint64_t address, std::int64_t /*bytes*/, std::int64_t requested, Category category) override {
    enter_phase();
    const LayerId layer = loop_->step == kNone ? kNone : operation().layer;
    recorder_.allocated(address, requested,
                        stack_of(layer, loop_->step == kNone ? name_of(category) : operation().name));
  }
  void releasing(std::uint64_t address, std::int64_t /*bytes*/) override {
    enter_phase();
    recorder_.released(address);
  }
  // Parameters and the like, whose layer is known only now.
  void placed(BufferId buffer, std::uint64_t address) override {
    if (loop_->step != kNone || address == 0) return;
    const Buffer& storage = plan_.step.micro_batches.schedules.back().buffers[index(buffer)];
    if (recorder_.is_last(address)) recorder_.set_last_stack(stack_of(storage.layer, name_of(storage.category)));
  }
  void constant_is_made(TensorId /*constant*/) override {}
  void model_is_made() override {}
  void micro_batch(std::int64_t /*number*/) override {}
  void run(std::size_t pass, std::int32_t step, std::span<const PlacedScratch> /*scratch*/) override {
    const Schedule& schedule = plan_.step.micro_batches.schedules[pass];
    const ScheduledOp& op = schedule.ops[index(step)];
    const std::string layer = op.layer == kNone ? "" : plan_.step.graph.layers[index(op.layer)].name;
    clock_.operation((layer.empty() ? "" : layer + " ") + std::string(op.name), schedule.ops.size(),
                     static_cast<std::size_t>(step));
    tell_time();
  }
  void state(std::uint64_t /*address*/, std::int64_t /*bytes*/) override {}
  void optimizer_tensor(OptimizerPart /*part*/, std::int32_t /*slot*/, std::uint64_t /*address*/) override {}
  void fp32_gradient(std::uint64_t /*address*/) override {}
  void optimizer(OptimizerPart /*part*/, int /*training_step*/, std::int32_t /*parameter*/) override {}
  void phase_ended(int training_step, Phase phase) override {
    enter(training_step, phase);  // one that allocates nothing is marked, too
    if (training_step >= 0) clock_.ended(phase);
    tell_time();
    leave_phase();
  }

 private:
  const ScheduledOp& operation() const {
    return plan_.step.micro_batches.schedules[loop_->pass].ops[index(loop_->step)];
  }
  void tell_time() {
    if (clock_.runs()) recorder_.set_clock(clock_.host_microseconds());
  }

  // Marks, as a profiler makes them of record_function(); those of the optimizer as torch.optim's.
  void enter_phase() { enter(loop_->training_step, loop_->phase); }
  void enter(int training_step, Phase phase) {
    if (in_phase_ && phase_ == phase && training_step_ == training_step) return;
    leave_phase();
    in_phase_ = true;
    phase_ = phase;
    training_step_ = training_step;
    recorder_.mark(name_of_phase(), true);
  }
  void leave_phase() {
    if (in_phase_) recorder_.mark(name_of_phase(), false);
    in_phase_ = false;
  }
  std::string name_of_phase() const {
    if (training_step_ < 0) return "build";
    if (phase_ == Phase::optimizer) return "Optimizer.step#" + std::string(name_of(plan_.step.run.optimizer));
    return std::string(name_of(phase_));
  }

  // The operation, then its module and those around it: "layer1.0.conv1", "layer1.0", "layer1".
  std::uint32_t stack_of(LayerId layer, std::string_view operation) {
    const std::string key =
        std::to_string(layer) + "/" + std::to_string(static_cast<int>(loop_->phase)) + "/" + std::string(operation);
    if (const auto at = stacks_.find(key); at != stacks_.end()) return at->second;
    const Layer* const of = layer == kNone ? nullptr : &plan_.step.graph.layers[index(layer)];
    const std::string file = of != nullptr && of->mark.source != nullptr ? of->mark.source->name : plan_.model->name;
    const std::int32_t line = of != nullptr && of->mark.source != nullptr ? of->mark.line : 0;
    const bool backward = loop_->phase == Phase::backward;
    const std::string path = of == nullptr ? "" : of->name;
    std::vector<std::uint32_t> frames = {recorder_.frame(
        file, (path.empty() ? "" : path + " ") + std::string(operation) + (backward ? " in backward" : ""), line)};
    for (std::string_view module = path; !module.empty();) {
      frames.push_back(recorder_.frame(file, module, 0));
      const std::size_t dot = module.rfind('.');
      module = dot == module.npos ? "" : module.substr(0, dot);
    }
    frames.push_back(recorder_.frame(file, plan_.model->name, 0));
    return stacks_[key] = recorder_.stack(frames);
  }

  const Plan& plan_;
  const RunningLoop* loop_ = nullptr;
  SnapshotRecorder recorder_;
  LoopClock clock_;
  bool in_phase_ = false;
  Phase phase_ = Phase::start;
  int training_step_ = -1;
  std::unordered_map<std::string, std::uint32_t> stacks_;
};

TimedSnapshot record(const Plan& plan, const ModelledTimes* times) {
  if (plan.step.run.allocator != AllocatorKind::caching)
    throw Error("a snapshot is of PyTorch's caching allocator: leave out --allocator", ErrorKind::usage);
  AllocatorSettings settings = parse_alloc_conf(plan.step.run.alloc_conf);
  settings.segment_order = plan.step.run.segments;
  PlanRecorder recorder(plan, settings.segment_order, times);
  CachingAllocator allocator(recorder.segments(), settings);
  (void)replay_loop(allocator, plan.step, &recorder);
  return {recorder.take(allocator), recorder.operations()};
}

}  // namespace

Snapshot snapshot_of(const Plan& plan) { return record(plan, nullptr).snapshot; }

TimedSnapshot timed_snapshot_of(const Plan& plan, const ModelledTimes& times) { return record(plan, &times); }

}  // namespace gpuplan
