// Appends steps to a Schedule. Used by the forward and by the backward half of its making.
#pragma once

#include <string_view>

#include "estimator/device/gpu.h"
#include "estimator/graph/graph.h"
#include "estimator/schedule/calls.h"
#include "estimator/schedule/schedule.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

class StepWriter {
 public:
  /// `calls`: where to record what each step is given, or null.
  StepWriter(Schedule& schedule, const RunConfig& run, const Gpu& gpu, Calls* calls = nullptr)
      : schedule_(schedule), run_(run), gpu_(gpu), calls_(calls) {}

  /// Begins a step. `what` must outlive the schedule; null where no kernel runs.
  void begin(Operator op, LayerId layer, Phase phase, const Primitive* what);
  void mark(std::string_view name, LayerId layer, Phase phase);
  void read(BufferId buffer) {
    schedule_.reads.push_back(buffer);
    schedule_.ops.back().reads.end = static_cast<std::int32_t>(schedule_.reads.size());
  }
  void allocate(BufferId buffer) {
    schedule_.allocated.push_back(buffer);
    schedule_.ops.back().allocates.end = static_cast<std::int32_t>(schedule_.allocated.size());
  }
  BufferId new_buffer(std::int64_t bytes, Category category, LayerId layer);

  /// Asks again what every step of the schedule allocates while it runs: the sizes of their operations have changed.
  void renew_scratch();

  Schedule& schedule() { return schedule_; }

  /// Null where nothing is recorded.
  Calls* calls() { return calls_; }
  /// What the step begun last is given: `view` makes an OperandView of an operand of `op`.
  template <class View>
  void record(const Graph& graph, const Op& op, View&& view) {
    if (calls_ == nullptr || schedule_.ops.back().what == nullptr) return;
    KernelCall& call = calls_->calls.emplace_back();
    call.step = static_cast<std::int32_t>(schedule_.ops.size()) - 1;
    call.reads = record_operands(graph.at(op.reads), view);
    call.extra = record_operands(graph.at(op.extra), view);
    call.writes = record_operands(graph.at(op.writes), view);
    call.attributes.begin = static_cast<std::int32_t>(calls_->attributes.size());
    for (std::int32_t i = op.attributes.begin; i < op.attributes.end; ++i)
      calls_->attributes.push_back(graph.attributes[static_cast<std::size_t>(i)]);
    call.attributes.end = static_cast<std::int32_t>(calls_->attributes.size());
  }
  /// The product recorded last, which computes a gradient, as one of two factors.
  void turn_factors(GemmGradient gradient);
  /// The same for an operation of the engine's own.
  void record(std::initializer_list<OperandView> reads, std::initializer_list<OperandView> writes,
              std::initializer_list<AttributeValue> attributes = {});

 private:
  Schedule& schedule_;
  const RunConfig& run_;
  const Gpu& gpu_;
  Calls* calls_;

  template <class View>
  Range record_operands(std::span<const Operand> operands, View&& view) {
    const auto begin = static_cast<std::int32_t>(calls_->operands.size());
    for (const Operand o : operands) calls_->operands.push_back(o == kAbsent ? OperandView{} : view(o));
    return {begin, static_cast<std::int32_t>(calls_->operands.size())};
  }
};

}  // namespace gpuplan
