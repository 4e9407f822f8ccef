#include "estimator/time/step_time.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/time/measured_time.h"
#include "estimator/time/operation_time.h"
#include "estimator/time/queue.h"

namespace gpuplan {
namespace {

constexpr double kLongest = 1e9;  // seconds: more comes of figures that no GPU has

struct HostCall {
  const TimeModel& model;
  double operator()(const Gemm&) const { return model.host_product; }
  double operator()(const Convolution&) const { return model.host_product; }
  double operator()(const OpaqueKernel&) const { return model.host_product; }
  double operator()(const Recurrence&) const { return model.host_product; }
  double operator()(const BatchNorm&) const { return model.host_norm; }
  double operator()(const LayerNorm&) const { return model.host_norm; }
  double operator()(const GroupNorm&) const { return model.host_norm; }
  template <class Other>
  double operator()(const Other&) const {
    return model.host_other;
  }
};

// Seconds by what the GPU waits for.
using Shares = std::array<double, 3>;
double& share(Shares& shares, Bound bound) { return shares[static_cast<std::size_t>(bound)]; }
Bound largest(const Shares& shares) { return static_cast<Bound>(std::ranges::max_element(shares) - shares.begin()); }

std::int64_t bytes_of(const Graph& graph, std::span<const TensorId> tensors) {
  std::int64_t bytes = 0;
  for (const TensorId t : tensors) bytes += graph.tensor(t).shape.elements() * size_of(graph.tensor(t).dtype);
  return bytes;
}

class StepClock {
 public:
  StepClock(const Graph& graph, const RunConfig& run, std::span<const RankStage> stages, const Processor& on,
            HostCopy copy)
      : graph_(graph), run_(run), stages_(stages), on_(on), copy_(copy), layer_shares_(graph.layers.size()) {
    time_.stages.resize(stages.size());
    time_.layers.resize(graph.layers.size());
    time_.measured = on.gpu.measured.has_value();
    for (const ParameterTensor& p : graph.parameters)
      if (p.trainable && p.layer != kNone) parameters_of_[p.layer] += 1;
  }

  TimedStep run(const MicroBatchSchedules& micro_batches, const StepUpdate& update) {
    for (std::int64_t i = 0; i < run_.micro_batches; ++i) {
      const std::size_t pass = i == 0 ? 0 : micro_batches.schedules.size() - 1;
      copy_batch();
      forward_and_backward(micro_batches, pass);
    }
    if (run_.mode == Mode::train) {
      if (run_.clip_grad_norm) update_row(update.clip, update.clip_kernels, time_.clip_seconds);
      update_row(update.step, update.kernels, time_.optimizer_seconds);
    }
    finish();
    return {std::move(time_), std::move(works_)};
  }

 private:
  // The GPU has done everything before `seconds`, which is what it took since the last row.
  void close_row(double& seconds) {
    seconds += queue_.gpu() - closed_;
    closed_ = queue_.gpu();
  }

  void copy_batch() {
    if (copy_ == HostCopy::none) return;
    std::vector<TensorId> inputs = graph_.inputs;
    std::erase_if(inputs, [&](TensorId t) { return std::ranges::find(graph_.leaves, t) != graph_.leaves.end(); });
    const std::int64_t bytes = bytes_of(graph_, inputs);  // without what another stage sends
    if (bytes == 0) return;
    const double rate = host_bandwidth(bytes, copy_ != HostCopy::pageable, on_);
    copied_ += static_cast<double>(bytes) / rate;
    if (copy_ == HostCopy::overlapped) return;
    queue_.launch(0, static_cast<double>(bytes) / rate);
    if (copy_ == HostCopy::pageable) queue_.synchronize();
    close_row(time_.copy_seconds);
  }

  // Which stage's the step is.
  std::size_t stage_of(std::size_t pass, Phase phase, std::int32_t step) const {
    std::size_t s = 0;
    while (s < stages_.size()) {
      const Range steps = stages_[s].passes[pass].steps[static_cast<std::size_t>(phase)];
      if (steps.begin <= step && step < steps.end) break;
      ++s;
    }
    return s;
  }
  void close_phase(Phase phase, std::size_t stage, bool of_weights) {
    const double since = closed_;
    close_row(row_of(phase));
    if (stage >= stages_.size()) return;
    StageTime& time = time_.stages[stage];
    (phase != Phase::backward ? time.forward_seconds
     : of_weights             ? time.weight_seconds
                              : time.backward_seconds) += closed_ - since;
  }
  // Whether the step of backward computes gradients of weights apart.
  bool is_of_weights(std::size_t stage, std::size_t pass, Phase phase, std::int32_t step) const {
    if (stage >= stages_.size() || phase != Phase::backward) return false;
    const std::int32_t begin = stages_[stage].passes[pass].weights_begin;
    return begin != kNone && step >= begin;
  }

  void forward_and_backward(const MicroBatchSchedules& micro_batches, std::size_t pass) {
    const Schedule& schedule = micro_batches.schedules[pass];
    const Calls& calls = micro_batches.calls[pass];
    auto call = calls.calls.begin();
    Phase phase = Phase::forward;
    std::size_t stage = 0;
    bool of_weights = false;
    works_.assign(schedule.ops.size(), {});
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(schedule.ops.size()); ++i) {
      const ScheduledOp& step = schedule.ops[index(i)];
      const std::size_t of = stages_.empty() ? 0 : stage_of(pass, step.phase, i);
      const bool weighs = is_of_weights(of, pass, step.phase, i);
      if (step.phase != phase || of != stage || weighs != of_weights) close_phase(phase, stage, of_weights);
      phase = step.phase;
      stage = of;
      of_weights = weighs;
      while (call != calls.calls.end() && call->step < i) ++call;
      if (step.what != nullptr && call != calls.calls.end() && call->step == i)
        works_[index(i)] = operation(step, known(schedule, i, *call, calls));
    }
    accumulations_.clear();
    close_phase(phase, stage, of_weights);
  }

  // What an operation does is the same in every micro-batch.
  struct Known {
    Work work;
    OperationTime time;
    bool there = false;
  };
  const Known& known(const Schedule& schedule, std::int32_t i, const KernelCall& call, const Calls& calls) {
    if (&schedule != known_of_) known_.assign(schedule.ops.size(), {});
    known_of_ = &schedule;
    Known& k = known_[index(i)];
    if (k.there) return k;
    const ScheduledOp& step = schedule.ops[index(i)];
    k.work = with_stored_weight(work_of(step, call, calls, run_.tf32), *step.what, call, calls, graph_, run_.weights);
    k.time = operation_time(*step.what, k.work, on_);
    k.there = true;
    return k;
  }

  StepWork operation(const ScheduledOp& step, const Known& known) {
    const auto& [work, time, there] = known;
    const double before = queue_.gpu(), call = host_call(step);
    const double waited = queue_.launch(call, time.seconds);
    Shares shares{};
    share(shares, Bound::launch) = waited;
    share(shares, time.compute_seconds > time.memory_seconds ? Bound::compute : Bound::memory) = time.seconds;
    add(shares_, shares);
    if (!step.recompute) count_flops(*step.what, work);
    if (step.layer == kNone) return {call, time.seconds};
    add(layer_shares_[index(step.layer)], shares);
    LayerTime& layer = time_.layers[index(step.layer)];
    layer.flops = checked_add(layer.flops, checked_add(work.product_flops, work.plain_flops));
    layer.bytes = checked_add(layer.bytes, work.bytes);
    layer.busy_seconds += time.seconds;
    (step.phase == Phase::backward ? layer.backward_seconds : layer.forward_seconds) += queue_.gpu() - before;
    return {call, time.seconds};
  }

  double host_call(const ScheduledOp& step) {
    const TimeModel& m = on_.model;
    if (step.phase != Phase::backward || step.recompute)
      return std::visit(HostCall{m}, *step.what) * (run_.mode == Mode::train ? m.host_recording : 1);
    // A layer's parameters get their gradients with its last node; when they do so makes no difference to the sum.
    const auto parameters = step.layer == kNone ? parameters_of_.end() : parameters_of_.find(step.layer);
    if (parameters == parameters_of_.end() || accumulations_[step.layer]) return m.host_backward;
    accumulations_[step.layer] = true;
    return m.host_backward + parameters->second * m.host_parameter;
  }

  void update_row(const Work& work, std::int64_t kernels, double& row) {
    const auto count = static_cast<double>(std::max<std::int64_t>(kernels, 1));
    const double moving = static_cast<double>(work.bytes) / achieved_bandwidth(work.bytes, on_);
    for (std::int64_t i = 0; i < kernels; ++i) {
      const double run = moving / count + kernel_seconds(on_);
      share(shares_, Bound::launch) += queue_.launch(on_.model.host_optimizer_kernel, run);
      share(shares_, Bound::memory) += run;
    }
    close_row(row);
  }

  void finish() {
    const double hidden = time_.seconds();
    if (copy_ == HostCopy::overlapped && copied_ > hidden) time_.copy_seconds = copied_ - hidden;
    time_.compute_seconds = share(shares_, Bound::compute);
    time_.memory_seconds = share(shares_, Bound::memory);
    time_.waiting_seconds = share(shares_, Bound::launch);
    time_.bound = largest(shares_);
    for (std::size_t i = 0; i < time_.layers.size(); ++i) time_.layers[i].bound = largest(layer_shares_[i]);
    time_.samples = run_.batch;
    if (!graph_.inputs.empty()) {
      const Tensor& input = graph_.tensor(graph_.inputs.front());
      const bool of_states = std::ranges::find(graph_.leaves, graph_.inputs.front()) != graph_.leaves.end() &&
                             input.shape.rank() == 3;  // what another stage sends
      if (of_states || (input.dtype == DType::int64 && input.shape.rank() == 2))
        time_.tokens = input.shape[0] * run_.micro_batches *
                       (of_states ? input.shape[1] * ranks_of_tokens() : input.shape[1] / run_.context_ranks);
    }
    if (time_.seconds() > 0) time_.flops_per_second = static_cast<double>(flops_) / time_.seconds();
    find_roofs();
  }

  // Hidden states lie along the tokens of so many ranks.
  std::int64_t ranks_of_tokens() const { return run_.tensor_plan.sequence ? run_.tensor_ranks : 1; }

  void find_roofs() {
    std::int64_t most = 0;
    for (const auto& [roof, flops] : flops_at_) {
      time_.roofs.push_back(roof);
      if (flops > most) most = flops, time_.peak_flops = roof.flops_per_second;
    }
    const Roof plain{name_of(DType::fp32), on_.peaks.plain};
    if (std::ranges::find(time_.roofs, plain.flops_per_second, &Roof::flops_per_second) == time_.roofs.end())
      time_.roofs.push_back(plain);
    std::ranges::sort(time_.roofs, std::ranges::greater{}, &Roof::flops_per_second);
    time_.peak_bytes = on_.peaks.bytes;
  }

  void count_flops(const Primitive& what, const Work& work) {
    const std::int64_t flops = 2 * cost(what).macs;
    if (flops == 0) return;
    const bool tf32 = work.tf32 || std::holds_alternative<Convolution>(what);
    flops_ += flops;
    const ProductRate rate = product_rate(work, tf32, on_);
    const bool as_tf32 = work.dtype == DType::fp32 && rate.tensor_cores;
    std::string_view type = as_tf32 ? "tf32" : name_of(work.dtype);
    if (work.weights == WeightFormat::int8) type = "int8";
    if (work.weights == WeightFormat::fp8) type = "fp8";
    const auto at = std::ranges::find(flops_at_, rate.flops, [](const auto& f) { return f.first.flops_per_second; });
    if (at != flops_at_.end()) return void(at->second += flops);
    flops_at_.push_back({Roof{type, rate.flops}, flops});
  }
  static void add(Shares& sum, const Shares& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  double& row_of(Phase phase) {
    switch (phase) {
      case Phase::loss: return time_.loss_seconds;
      case Phase::backward: return time_.backward_seconds;
      default: return time_.forward_seconds;
    }
  }

  const Graph& graph_;
  const RunConfig& run_;
  std::span<const RankStage> stages_;
  const Processor& on_;
  HostCopy copy_;
  Queue queue_;
  double closed_ = 0, copied_ = 0;
  Shares shares_{};
  std::vector<Shares> layer_shares_;
  std::map<LayerId, int> parameters_of_;   // trainable ones
  std::map<LayerId, bool> accumulations_;  // layers whose gradients this backward has accumulated
  std::int64_t flops_ = 0;
  std::vector<std::pair<Roof, std::int64_t>> flops_at_;  // of products, by what they run at
  StepTime time_;
  std::vector<Known> known_;  // by operation of known_of_
  const Schedule* known_of_ = nullptr;
  std::vector<StepWork> works_;  // of the last micro-batch so far
};

}  // namespace

std::string_view name_of(Bound bound) {
  constexpr std::array<std::string_view, 3> kNames = {"compute", "memory", "launch"};
  return kNames[static_cast<std::size_t>(bound)];
}

StepUpdate step_update(const Graph& graph, const Schedule& schedule, const OptimizerWork& optimizer) {
  StepUpdate update{update_work(graph, schedule, optimizer), clip_work(graph, schedule, optimizer),
                    optimizer.steady.kernels, optimizer.clip.kernels};
  for (const OptimizerProgram& p : optimizer.steady_of) update.kernels += p.kernels;
  return update;
}

std::string why_no_time(const RunConfig& run, const Gpu& gpu, HostCopy copy) {
  if (run.offload_optimizer || run.offload_saved) return "offloading is not timed";
  const bool int8 = run.weights == WeightFormat::int8;
  if ((int8 || run.weights == WeightFormat::fp8) && !stored_rate(run.weights, gpu))
    return std::string("the GPU file has no tensor core peak for ") + (int8 ? "int8" : "fp8");
  const Peaks peaks = rated_peaks(gpu);
  if (peaks.plain <= 0) return "the GPU file has no fp32 peak";
  if (peaks.bytes <= 0) return "the GPU file has no memory bandwidth (bandwidth_gb_s)";
  const bool pinned = copy == HostCopy::pinned || copy == HostCopy::overlapped;
  const TimeModel model;
  if (pinned && host_bandwidth(1, true, make_processor(gpu, model)) <= 0)
    return "the GPU file has no host link (host_link_gb_s); --host-copy none leaves the copy out";
  return "";
}

std::optional<TimedStep> timed_step(const RankStep& step, const StepUpdate& update, HostCopy copy,
                                    const TimeModel& constants) {
  if (!why_no_time(step.run, step.gpu, copy).empty()) return std::nullopt;
  const Processor processor = make_processor(step.gpu, constants);
  std::optional<TimedStep> timed =
      StepClock(step.graph, step.run, step.stages, processor, copy).run(step.micro_batches, update);
  if (timed->time.seconds() >= kLongest) timed.reset();
  return timed;
}

std::optional<StepTime> step_time(const RankStep& step, HostCopy copy, const TimeModel& constants) {
  const StepUpdate update = step_update(step.graph, step.schedule(), step.optimizer);
  std::optional<TimedStep> timed = timed_step(step, update, copy, constants);
  return timed ? std::optional(std::move(timed->time)) : std::nullopt;
}

std::optional<ModelledTimes> modelled_times(const RankStep& step, HostCopy copy) {
  std::optional<TimedStep> timed = timed_step(step, step_update(step.graph, step.schedule(), step.optimizer), copy, {});
  if (!timed) return std::nullopt;
  const StepTime& time = timed->time;
  return ModelledTimes{std::move(timed->last_micro_batch), time.copy_seconds, time.clip_seconds,
                       time.optimizer_seconds};
}

}  // namespace gpuplan
