#include "estimator/plan/live_bytes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

std::int64_t rounded(std::int64_t bytes) { return round_up(bytes, 512); }

class Levels {
 public:
  explicit Levels(const RankStep& step)
      : graph_(step.graph), passes_(step.micro_batches.schedules), optimizer_(step.optimizer), run_(step.run) {}

  LiveBytes compute() {
    const bool first = run_.first_step;
    absent_.assign(graph_.buffers.size(), 0);
    for (const TensorId t : graph_.model_storage) {
      const auto b = static_cast<std::size_t>(buffer_of(graph_, t));
      if (is_constant(graph_, t))
        absent_[b] = 1;
      else if (graph_.buffers[b].category != Category::scratch)
        add(t);
    }
    r_.after_model = live_;
    if (!first)
      for (const TensorId t : graph_.model_storage) make_constant(buffer_of(graph_, t));
    for (const TensorId t : graph_.inputs) add(t);
    for (const OptimizerProgram* p : {&optimizer_.construction, &optimizer_.first})
      for (const OptimizerEvent& e : p->events)
        if (e.kind == OptimizerEvent::Kind::alloc_state) state_sizes_[e.slot] = rounded(e.bytes);
    r_.optimizer_state = states({&optimizer_.construction});
    if (!first) r_.optimizer_state = states({&optimizer_.construction, &optimizer_.first});
    for (const OptimizerProgram& p : optimizer_.first_of) r_.optimizer_state += first ? 0 : states({&p});
    live_ += r_.optimizer_state;
    const std::int64_t old_gradients = !first && run_.gradients_live_in_forward() ? gradients() : 0;
    live_ += old_gradients;
    r_.start = live_;
    const bool old_result = run_.loop == Loop::plain && !first && run_.mode == Mode::train;
    std::int64_t held = bytes(s().output) + bytes(s().loss) + bytes(s().model_loss);
    for (const BufferId b : s().beside_results) held += bytes(b);
    if (old_result) live_ += held;  // bound to their names until the new loss is there
    r_.forward_peak = r_.loss_peak = r_.peak = live_;
    if (run_.mode == Mode::infer) {
      follow(Phase::forward, r_.forward_peak, r_.forward_end);
      r_.end = live_ - bytes(s().output);
      for (const BufferId b : s().beside_results) r_.end -= bytes(b);
      return r_;
    }
    // All micro-batches after the second are like it.
    for (r_.pass = pass_ = 0; pass_ < passes_.size(); ++pass_) {
      follow(Phase::forward, r_.forward_peak, r_.forward_end);
      follow(Phase::loss, r_.loss_peak, r_.loss_end);
      if (old_result) live_ -= held;
      if (pass_ == 0) live_ -= old_gradients;  // zero_grad() comes before backward
      r_.loss_end = live_;
      follow(Phase::backward, r_.backward_peak, r_.backward_end);
      if (pass_ + 1 < passes_.size() && !old_result) live_ -= held;
    }
    phase_ = Phase::optimizer;
    step_ = kNone;
    if (run_.clip_grad_norm) program(optimizer_.clip);
    program(first ? optimizer_.first : optimizer_.steady);
    r_.end = live_ - held;
    return r_;
  }

 private:
  std::int64_t bytes(BufferId b) const {
    return b == kNone ? 0 : rounded(s().buffers[static_cast<std::size_t>(b)].bytes);
  }
  std::int64_t gradients() const {
    std::int64_t sum = 0;
    for (const BufferId b : passes_.front().gradients) sum += bytes(b);
    return sum;
  }
  // Nothing where it is there, or is none.
  void make_constant(BufferId b) {
    if (std::exchange(absent_[static_cast<std::size_t>(b)], 0) == 0) return;
    live_ += bytes(b);
    for (const auto& [old, converted] : graph_.converted_buffers)
      if (converted == b) live_ -= bytes(old);
  }
  void add(TensorId t) { live_ += bytes(graph_.tensors[static_cast<std::size_t>(t)].buffer); }

  static std::int64_t states(std::initializer_list<const OptimizerProgram*> programs) {
    return state_bytes({programs.begin(), programs.size()}, rounded(1));
  }

  void note(std::int64_t& phase_peak) {
    phase_peak = std::max(phase_peak, live_);
    if (live_ <= r_.peak) return;
    r_.peak = live_;
    r_.phase = phase_;
    r_.step = step_;
    r_.pass = pass_;
  }

  void follow(Phase phase, std::int64_t& peak, std::int64_t& end) {
    phase_ = phase;
    peak = std::max(peak, live_);
    std::size_t next = 0;
    auto constant = s().constants.begin();
    for (std::size_t i = 0; i < s().ops.size(); ++i) {
      const ScheduledOp& step = s().ops[i];
      if (step.phase != phase) continue;
      step_ = static_cast<std::int32_t>(i);
      for (; constant != s().constants.end() && constant->step <= step_; ++constant) make_constant(constant->buffer);
      for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k)
        live_ += bytes(s().allocated[static_cast<std::size_t>(k)]);
      if (step.allocates.begin != step.allocates.end) note(peak);
      if (phase == Phase::backward) update(static_cast<std::int32_t>(i), peak);
      for (std::int32_t k = step.releases.begin; k < step.releases.end; ++k)
        live_ -= bytes(s().released[static_cast<std::size_t>(k)]);
      while (next < s().replacements.size() && s().replacements[next].step < static_cast<std::int32_t>(i)) ++next;
      if (next < s().replacements.size() && s().replacements[next].step == static_cast<std::int32_t>(i)) {
        make_constant(s().replacements[next].old_buffer);  // the new one takes its place, where there was one or not
        live_ -= bytes(s().replacements[next].old_buffer);
      }
    }
    end = live_;
  }

  // A parameter's own optimizer, in backward.
  void update(std::int32_t step, std::int64_t& peak) {
    const auto found = std::ranges::lower_bound(s().updates, step, {}, &Schedule::Update::step);
    if (found == s().updates.end() || found->step != step) return;
    const auto& programs = run_.first_step && pass_ == 0 ? optimizer_.first_of : optimizer_.steady_of;
    const auto parameter = static_cast<std::size_t>(found->parameter);
    if (parameter < programs.size()) program(programs[parameter], peak);
  }

  void program(const OptimizerProgram& p) { program(p, r_.optimizer_peak); }

  void program(const OptimizerProgram& p, std::int64_t& peak) {
    peak = std::max(peak, live_);
    std::vector<std::int64_t> slots;
    for (const OptimizerEvent& e : p.events) {
      const auto slot = static_cast<std::size_t>(e.slot);
      if (slots.size() <= slot) slots.resize(slot + 1, 0);
      if (e.kind == OptimizerEvent::Kind::free_gradient) {
        live_ -= bytes(passes_.front().gradient_of[slot]);
      } else if (e.kind == OptimizerEvent::Kind::free_state) {
        live_ -= state_sizes_[e.slot];
      } else if (e.kind == OptimizerEvent::Kind::free) {
        live_ -= slots[slot];
        slots[slot] = 0;
      } else if (e.kind != OptimizerEvent::Kind::alloc_scratch) {
        live_ += slots[slot] = rounded(e.bytes);
        note(peak);
      }
    }
  }

  const Schedule& s() const { return passes_[std::min(pass_, passes_.size() - 1)]; }

  const Graph& graph_;
  std::span<const Schedule> passes_;
  std::size_t pass_ = 0;
  std::vector<char> absent_;  // constants that no step has made so far
  const OptimizerWork& optimizer_;
  const RunConfig& run_;
  LiveBytes r_;
  std::map<std::int32_t, std::int64_t> state_sizes_;  // by slot; one that takes another's place is as large
  std::int64_t live_ = 0;
  Phase phase_ = Phase::start;
  std::int32_t step_ = kNone;
};

}  // namespace

LiveBytes live_bytes_of(const RankStep& step) { return Levels(step).compute(); }

}  // namespace gpuplan
