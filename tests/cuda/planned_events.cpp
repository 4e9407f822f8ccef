// What a plan says of a training loop, derived from the schedule by itself: the executor's own books
// (validate/executor/placed_kernels.h, stepped_parameters.h) are what it is compared with.
#include <algorithm>
#include <string_view>

#include "estimator/base/integers.h"
#include "estimator/optimizer/grad_scaler.h"
#include "estimator/optimizer/optimizer_work.h"
#include "tests/cuda/events.h"

namespace gpuplan {
namespace {

// Segments for the allocator, written down.
class PlannedSegments final : public SegmentSource {
 public:
  PlannedSegments(std::int64_t capacity_bytes, EventLog& log) : segments_(capacity_bytes), log_(log) {}
  std::uint64_t allocate(std::int64_t bytes) override {
    const std::uint64_t address = segments_.allocate(bytes);
    log_.segment_came(address, bytes);
    return address;
  }
  void release(std::uint64_t address, std::int64_t bytes) override {
    log_.segment_left(address, bytes);
    segments_.release(address, bytes);
  }
  std::uint64_t reserve(std::int64_t bytes) override {
    const std::uint64_t address = segments_.reserve(bytes);
    log_.range_came(address, bytes);
    return address;
  }
  bool map(std::uint64_t address, std::int64_t bytes) override {
    const bool there = segments_.map(address, bytes);
    if (there) log_.pages(address, bytes, true);
    return there;
  }
  void unmap(std::uint64_t address, std::int64_t bytes) override {
    log_.pages(address, bytes, false);
    segments_.unmap(address, bytes);
  }

 private:
  ArithmeticSegments segments_;
  EventLog& log_;
};

// Where the optimizer's tensors for a parameter are; 0: there is none.
struct Optimized {
  std::uint64_t master = 0, fp32_gradient = 0;
  std::vector<std::uint64_t> states;
};

class PlannedLoop final : public LoopObserver {
 public:
  PlannedLoop(const RankStep& rank, EventLog& log)
      : rank_(rank), graph_(rank.graph), run_(rank.run), trained_(first_pass().with_gradient), log_(log) {
    addresses_.assign(rank.micro_batches.schedules.back().buffers.size(), 0);
    optimized_.resize(graph_.parameters.size());
    for (const std::int32_t p : trained_)
      if (has_master(p)) half_.push_back(p);
  }

  void allocated(std::uint64_t address, std::int64_t bytes, std::int64_t /*requested_bytes*/,
                 Category /*category*/) override {
    log_.block(address, bytes, true);
  }
  void releasing(std::uint64_t address, std::int64_t bytes) override { log_.block(address, bytes, false); }
  void placed(BufferId buffer, std::uint64_t address) override { addresses_[index(buffer)] = address; }
  void state(std::uint64_t address, std::int64_t) override { new_states_.push_back(address); }
  void phase_ended(int, Phase) override {}
  void micro_batch(std::int64_t number) override { micro_batch_ = number; }

  void optimizer_tensor(OptimizerPart part, std::int32_t slot, std::uint64_t address) override {
    if (part == OptimizerPart::scaler && slot == kScaleSlot) scale_ = address;
    if (part == OptimizerPart::scaler && slot == kGrowthTrackerSlot) growth_tracker_ = address;
    const OptimizerPart unscales = run_.clip_grad_norm ? OptimizerPart::clip : OptimizerPart::step;
    if (part == unscales && slot == kFoundInfSlot) found_inf_ = address;
  }

  void constant_is_made(TensorId) override {}
  // The copies take the values of the weights.
  void model_is_made() override {
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(optimized_.size()); ++p)
      if (optimized_[index(p)].master != 0) cast("aten::to", weight(p), optimized_[index(p)].master);
  }

  void fp32_gradient(std::uint64_t address) override {
    if (half_.empty()) return;
    const std::int32_t p = half_[next_half_++ % half_.size()];
    optimized_[index(p)].fp32_gradient = 0;
    if (address != 0) cast("aten::to", gradient(p), address);
    optimized_[index(p)].fp32_gradient = address;
  }

  void run(std::size_t pass, std::int32_t number, std::span<const PlacedScratch> scratch) override {
    const ScheduledOp& step = rank_.micro_batches.schedules[pass].ops[index(number)];
    if (std::holds_alternative<Marker>(*step.what)) return;  // aten::empty: no kernel
    const Calls& calls = rank_.micro_batches.calls[pass];
    std::vector<std::uint64_t> operands;
    const auto call = std::ranges::lower_bound(calls.calls, number, {}, &KernelCall::step);
    if (call != calls.calls.end() && call->step == number) {
      for (const OperandView& view : calls.at(call->reads)) operands.push_back(address(view));
      if (is_scaled(step)) operands.push_back(scale_);
      for (const Range r : {call->extra, call->writes})
        for (const OperandView& view : calls.at(r)) operands.push_back(address(view));
    }
    for (const PlacedScratch& s : scratch) operands.push_back(s.address);
    const std::string layer = step.layer == kNone ? "" : graph_.layers[index(step.layer)].name;
    log_.kernel(std::string(step.name) + " of " + layer, operands);
  }

  void optimizer(OptimizerPart part, int training_step, std::int32_t parameter) override {
    if (part == OptimizerPart::construction) claim_constructed();
    if (part == OptimizerPart::clip) {
      unscale();
      log_.kernel("clip", gradients());
    }
    if (part == OptimizerPart::step) step(training_step, parameter);
  }

 private:
  const Schedule& first_pass() const { return rank_.micro_batches.schedules.front(); }
  const Tensor& tensor_of(std::int32_t parameter) const {
    return graph_.tensor(graph_.parameters[index(parameter)].tensor);
  }
  bool has_master(std::int32_t parameter) const {
    return stepped_type(tensor_of(parameter).dtype, run_) != tensor_of(parameter).dtype;
  }

  // Micro-batches lie behind one another in the batch.
  std::uint64_t address(const OperandView& view) const {
    const std::uint64_t begin = view.buffer == kNone ? 0 : addresses_[index(view.buffer)];
    if (begin == 0) return 0;
    std::int64_t offset = view.offset * size_of(view.dtype);
    for (const TensorId input : graph_.inputs)
      if (graph_.tensor(input).buffer == view.buffer)
        offset += micro_batch_ * (graph_.buffers[index(view.buffer)].bytes / run_.micro_batches);
    return begin + static_cast<std::uint64_t>(offset);
  }
  std::uint64_t weight(std::int32_t parameter) const {
    const Tensor& t = tensor_of(parameter);
    return address(view_of(t, t.buffer));
  }
  std::uint64_t gradient(std::int32_t parameter) const {
    if (optimized_[index(parameter)].fp32_gradient != 0) return optimized_[index(parameter)].fp32_gradient;
    const auto which = std::ranges::find(trained_, parameter) - trained_.begin();
    return address(rank_.micro_batches.calls.front().gradients[index(which)]);
  }
  std::vector<std::uint64_t> gradients() const {
    std::vector<std::uint64_t> all;
    for (const std::int32_t p : trained_) all.push_back(gradient(p));
    return all;
  }

  // The loss and its gradient are multiplied by the scaler's scale, which is on the device.
  bool is_scaled(const ScheduledOp& step) const {
    return run_.scales_gradients() && step.phase == Phase::backward && step.name == "aten::mul" &&
           std::holds_alternative<Fill>(*step.what);
  }

  // torch's optimizers make their states in their constructor (Adagrad, capturable steps) or in the first step; copies
  // for master weights are there before them.
  void claim_constructed() {
    std::vector<std::int32_t> trainable;
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(optimized_.size()); ++p)
      if (graph_.parameters[index(p)].trainable) trainable.push_back(p);
    auto next = new_states_.begin();
    for (const std::int32_t p : trainable)
      if (has_master(p) && next != new_states_.end()) optimized_[index(p)].master = *next++;
    new_states_.erase(new_states_.begin(), next);
    claim(trainable);
  }
  void claim(std::span<const std::int32_t> parameters) {
    const std::size_t each = parameters.empty() ? 0 : new_states_.size() / parameters.size();
    for (std::size_t i = 0; i < parameters.size() * each; ++i)
      optimized_[index(parameters[i / each])].states.push_back(new_states_[i]);
    new_states_.clear();
  }

  void unscale() {
    if (!run_.scales_gradients()) return;
    std::vector<std::uint64_t> operands = gradients();
    operands.insert(operands.end(), {scale_, found_inf_});
    log_.kernel("unscale", operands);
  }

  void step(int training_step, std::int32_t parameter) {
    if (run_.optimizer_in_backward && parameter == kNone) return;  // all were stepped on the way
    const std::span<const std::int32_t> all(trained_);
    const auto stepped = parameter == kNone ? all : all.subspan(index(parameter), 1);
    claim(stepped);
    if (!run_.clip_grad_norm) unscale();
    std::vector<std::uint64_t> operands;
    for (const std::int32_t p : stepped) {
      const Optimized& o = optimized_[index(p)];
      operands.push_back(o.master != 0 ? o.master : weight(p));
      operands.push_back(gradient(p));
      operands.insert(operands.end(), o.states.begin(), o.states.end());
    }
    log_.kernel("update " + std::to_string(training_step + 1), operands);
    for (const std::int32_t p : stepped)
      if (optimized_[index(p)].master != 0) cast("aten::copy_", weight(p), optimized_[index(p)].master);
    if (run_.scales_gradients()) log_.kernel("update scale", {scale_, growth_tracker_, found_inf_});
  }

  void cast(std::string_view name, std::uint64_t first, std::uint64_t second) {
    log_.kernel(std::string(name) + " of master weights", {first, second});
  }

  const RankStep& rank_;
  const Graph& graph_;
  const RunConfig& run_;
  const std::vector<std::int32_t>& trained_;  // Schedule::with_gradient: members of Graph::parameters
  EventLog& log_;
  std::vector<std::uint64_t> addresses_;  // by buffer
  std::int64_t micro_batch_ = 0;
  std::vector<std::uint64_t> new_states_;  // of whose parameters the optimizer says later
  std::vector<Optimized> optimized_;       // by Graph::parameters
  std::vector<std::int32_t> half_;         // those of trained_ whose gradients are cast
  std::size_t next_half_ = 0;
  std::uint64_t scale_ = 0, growth_tracker_ = 0, found_inf_ = 0;
};

}  // namespace

EventLog planned_events(const RankStep& rank, std::int64_t capacity_bytes, int steps) {
  EventLog log;
  PlannedSegments segments(capacity_bytes, log);
  PlannedLoop loop(rank, log);
  CachingAllocator allocator(segments, parse_alloc_conf(rank.run.alloc_conf));
  replay_loop(allocator, rank, &loop, steps);
  return log;
}

}  // namespace gpuplan
