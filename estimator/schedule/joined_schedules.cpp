#include "estimator/schedule/joined_schedules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "estimator/base/integers.h"
#include "estimator/graph/joined_graph.h"

namespace gpuplan {
namespace {

constexpr auto kForward = static_cast<std::size_t>(Phase::forward), kLoss = static_cast<std::size_t>(Phase::loss),
               kBackward = static_cast<std::size_t>(Phase::backward);

std::int32_t length(Range r) { return r.end - r.begin; }

class Joiner {
 public:
  explicit Joiner(std::span<const PartToJoin> parts) : parts_(parts), layers_(parts.size(), 0) {}

  JoinedSchedules join() {
    place_buffers();
    const MicroBatchSchedules& first = *parts_.front().schedules;
    for (std::size_t pass = 0; pass < first.schedules.size(); ++pass) {
      place_steps(pass);
      joined_.schedules.schedules.push_back(schedule(pass));
      if (!first.calls.empty()) joined_.schedules.calls.push_back(calls(pass));
    }
    return std::move(joined_);
  }

 private:
  void place_buffers() {
    std::int32_t graphs = 0, more = 0, parameters = 0, layers = 0;
    for (const PartToJoin& p : parts_) more += size_of_vector(p.graph->buffers);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const Graph& graph = *parts_[k].graph;
      const std::vector<Buffer>& all = parts_[k].schedules->schedules.back().buffers;
      const std::int32_t own = size_of_vector(graph.buffers);
      joined_.parts.push_back({parameters, own, graphs, more, {}});
      layers_[k] = layers;
      graphs += own;
      more += size_of_vector(all) - own;
      parameters += size_of_vector(graph.parameters);
      layers += size_of_vector(graph.layers);
    }
    buffers_.resize(index(more));
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const std::vector<Buffer>& all = parts_[k].schedules->schedules.back().buffers;
      for (std::size_t b = 0; b < all.size(); ++b) {
        Buffer& to = buffers_[index(joined_.parts[k].buffer(static_cast<BufferId>(b)))] = all[b];
        if (to.layer != kNone) to.layer += layers_[k];
      }
    }
  }

  const Schedule& of(std::size_t part, std::size_t pass) const { return parts_[part].schedules->schedules[pass]; }

  // All forwards, then the losses, then the backwards in reverse.
  void place_steps(std::size_t pass) {
    std::int32_t next = 0;
    for (const std::size_t phase : {kForward, kLoss})
      for (std::size_t k = 0; k < parts_.size(); ++k) next = place_phase(k, pass, phase, next);
    for (std::size_t k = parts_.size(); k-- > 0;) next = place_phase(k, pass, kBackward, next);
  }
  std::int32_t place_phase(std::size_t k, std::size_t pass, std::size_t phase, std::int32_t next) {
    const Range steps = phase_ranges(of(k, pass))[phase];
    auto& offsets = joined_.parts[k].steps;
    offsets.resize(pass + 1);
    offsets[pass][phase] = next - steps.begin;
    return next + length(steps);
  }
  std::int32_t step(std::size_t k, std::size_t pass, std::int32_t s) const {
    const auto phase = static_cast<std::size_t>(of(k, pass).ops[index(s)].phase);
    return s + joined_.parts[k].steps[pass][phase];
  }

  Schedule schedule(std::size_t pass) {
    Schedule s;
    s.buffers = buffers_;
    for (std::size_t k = 0; k < parts_.size(); ++k) append_tables(s, k, pass);
    std::ranges::stable_sort(s.updates, {}, &Schedule::Update::step);
    for (auto* const all : {&s.replacements, &s.taken})
      std::ranges::stable_sort(*all, {}, &Schedule::Replacement::step);
    std::ranges::stable_sort(s.constants, {}, &Schedule::FirstRead::step);
    append_steps(s, pass);
    const std::size_t last = parts_.size() - 1;
    s.output = joined_.parts[last].buffer(of(last, pass).output);
    s.loss = joined_.parts[last].buffer(of(last, pass).loss);
    s.model_loss = joined_.parts[last].buffer(of(last, pass).model_loss);
    return s;
  }

  void append_buffers(std::vector<BufferId>& to, const std::vector<BufferId>& from, std::size_t k) const {
    for (const BufferId b : from) to.push_back(joined_.parts[k].buffer(b));
  }

  void append_tables(Schedule& s, std::size_t k, std::size_t pass) const {
    const Schedule& from = of(k, pass);
    const JoinedPart& part = joined_.parts[k];
    const auto with_gradient = size_of_vector(s.with_gradient);
    append_buffers(s.gradients, from.gradients, k);
    append_buffers(s.gradient_of, from.gradient_of, k);
    append_buffers(s.beside_results, from.beside_results, k);
    for (const std::int32_t p : from.with_gradient) s.with_gradient.push_back(p + part.parameters);
    for (const std::int32_t at : from.gradient_arrives) s.gradient_arrives.push_back(at + part.steps[pass][kBackward]);
    for (const Schedule::Update& u : from.updates)
      s.updates.push_back({step(k, pass, u.step), u.parameter + with_gradient});
    for (const auto& [to, all] : {std::pair(&s.replacements, &from.replacements), std::pair(&s.taken, &from.taken)})
      for (const Schedule::Replacement& r : *all)
        to->push_back({step(k, pass, r.step), part.buffer(r.old_buffer), part.buffer(r.new_buffer)});
    const auto tensors = tensors_before(k);
    for (const Schedule::FirstRead& r : from.constants)
      s.constants.push_back({step(k, pass, r.step), r.constant + tensors, part.buffer(r.buffer), part.buffer(r.drops)});
  }
  std::int32_t tensors_before(std::size_t k) const {
    std::int32_t tensors = 0;
    for (std::size_t i = 0; i < k; ++i) tensors += size_of_vector(parts_[i].graph->tensors);
    return tensors;
  }

  void append_steps(Schedule& s, std::size_t pass) const {
    for (const std::size_t phase : {kForward, kLoss})
      for (std::size_t k = 0; k < parts_.size(); ++k) append_phase(s, k, pass, phase);
    for (std::size_t k = parts_.size(); k-- > 0;) append_phase(s, k, pass, kBackward);
  }
  void append_phase(Schedule& s, std::size_t k, std::size_t pass, std::size_t phase) const {
    const Schedule& from = of(k, pass);
    const Range steps = phase_ranges(from)[phase];
    const auto buffers = [&](const std::vector<BufferId>& all, Range r, std::vector<BufferId>& to) {
      const std::int32_t begin = size_of_vector(to);
      for (std::int32_t i = r.begin; i < r.end; ++i) to.push_back(joined_.parts[k].buffer(all[index(i)]));
      return Range{begin, size_of_vector(to)};
    };
    for (std::int32_t i = steps.begin; i < steps.end; ++i) {
      ScheduledOp op = from.ops[index(i)];
      if (op.layer != kNone) op.layer += layers_[k];
      const std::int32_t scratch = size_of_vector(s.scratch);
      s.scratch.insert(s.scratch.end(), from.scratch.begin() + op.scratch.begin, from.scratch.begin() + op.scratch.end);
      op.scratch = {scratch, size_of_vector(s.scratch)};
      op.allocates = buffers(from.allocated, op.allocates, s.allocated);
      op.reads = buffers(from.reads, op.reads, s.reads);
      op.releases = buffers(from.released, op.releases, s.released);
      s.ops.push_back(op);
    }
  }

  Calls calls(std::size_t pass) const {
    Calls joined;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const Calls& from = parts_[k].schedules->calls[pass];
      const auto views = [&](const std::vector<OperandView>& all, std::vector<OperandView>& to) {
        for (OperandView v : all) {
          v.buffer = joined_.parts[k].buffer(v.buffer);
          to.push_back(v);
        }
      };
      const std::int32_t operands = size_of_vector(joined.operands), attributes = size_of_vector(joined.attributes);
      views(from.operands, joined.operands);
      views(from.gradients, joined.gradients);
      joined.attributes.insert(joined.attributes.end(), from.attributes.begin(), from.attributes.end());
      for (KernelCall call : from.calls) {
        call.step = step(k, pass, call.step);
        for (Range* const r : {&call.reads, &call.extra, &call.writes}) *r = {r->begin + operands, r->end + operands};
        call.attributes = {call.attributes.begin + attributes, call.attributes.end + attributes};
        joined.calls.push_back(call);
      }
    }
    std::ranges::sort(joined.calls, {}, &KernelCall::step);
    return joined;
  }

  std::span<const PartToJoin> parts_;
  std::vector<std::int32_t> layers_;  // of the parts before
  std::vector<Buffer> buffers_;
  JoinedSchedules joined_;
};

}  // namespace

PhaseRanges phase_ranges(const Schedule& schedule) {
  PhaseRanges phases{};
  for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
    Range& phase = phases[static_cast<std::size_t>(schedule.ops[i].phase)];
    if (phase.begin == phase.end) phase.begin = static_cast<std::int32_t>(i);
    phase.end = static_cast<std::int32_t>(i) + 1;
  }
  return phases;
}

JoinedSchedules joined_schedules(std::span<const PartToJoin> parts) { return Joiner(parts).join(); }

}  // namespace gpuplan
