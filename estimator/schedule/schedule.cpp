#include "estimator/schedule/schedule.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include "estimator/operators/scratch.h"
#include "estimator/schedule/backward.h"
#include "estimator/schedule/host_saved.h"
#include "estimator/schedule/step_writer.h"
#include "estimator/schedule/unreached.h"

namespace gpuplan {

void StepWriter::mark(std::string_view name, LayerId layer, Phase phase) {
  begin(Operator::locals_die, layer, phase, nullptr);
  schedule_.ops.back().name = name;
}

void StepWriter::begin(Operator op, LayerId layer, Phase phase, const Primitive* what) {
  ScheduledOp step;
  step.name = name_of(op);
  step.op = op;
  step.layer = layer;
  step.phase = phase;
  step.what = what;
  const auto end = [](const auto& v) {
    return Range{static_cast<std::int32_t>(v.size()), static_cast<std::int32_t>(v.size())};
  };
  step.allocates = end(schedule_.allocated);
  step.reads = end(schedule_.reads);
  step.scratch = end(schedule_.scratch);
  if (what != nullptr) {
    step.unrecorded = append_scratch(*what, run_, gpu_, schedule_.scratch);
    const Gemm* const gemm = std::get_if<Gemm>(what);
    step.product = gemm != nullptr;
    step.adds_bias = gemm != nullptr && gemm->bias_epilogue;
    step.dropout_states = std::holds_alternative<DropoutStates>(*what);
    step.kernels = static_cast<std::int32_t>(cost(*what).kernels);
  }
  step.scratch.end = static_cast<std::int32_t>(schedule_.scratch.size());
  schedule_.ops.push_back(step);
}

void StepWriter::renew_scratch() {
  ScratchProgram& scratch = schedule_.scratch;
  scratch.clear();
  for (ScheduledOp& step : schedule_.ops) {
    step.scratch.begin = static_cast<std::int32_t>(scratch.size());
    if (step.what != nullptr) step.unrecorded = append_scratch(*step.what, run_, gpu_, scratch);
    step.scratch.end = static_cast<std::int32_t>(scratch.size());
  }
}

BufferId StepWriter::new_buffer(std::int64_t bytes, Category category, LayerId layer) {
  schedule_.buffers.push_back({bytes, category, layer});
  return static_cast<BufferId>(schedule_.buffers.size() - 1);
}

void StepWriter::record(std::initializer_list<OperandView> reads, std::initializer_list<OperandView> writes,
                        std::initializer_list<AttributeValue> attributes) {
  if (calls_ == nullptr) return;
  const auto append = [](auto& to, auto values) {
    const auto begin = static_cast<std::int32_t>(to.size());
    to.insert(to.end(), values);
    return Range{begin, static_cast<std::int32_t>(to.size())};
  };
  KernelCall call;
  call.step = static_cast<std::int32_t>(schedule_.ops.size()) - 1;
  call.reads = append(calls_->operands, reads);
  call.extra = {call.reads.end, call.reads.end};
  call.writes = append(calls_->operands, writes);
  call.attributes = append(calls_->attributes, attributes);
  calls_->calls.push_back(call);
}

void StepWriter::turn_factors(GemmGradient gradient) {
  if (calls_ == nullptr || gradient == GemmGradient::none) return;
  const Range reads = calls_->calls.back().reads;
  OperandView& first = calls_->operands[static_cast<std::size_t>(reads.begin)];
  OperandView& second = calls_->operands[static_cast<std::size_t>(reads.begin) + 1];
  const int rank = second.shape.rank();
  const OperandView saved = second;
  for (const int i : {rank - 2, rank - 1}) {
    const int other = 2 * rank - 3 - i;
    second.shape.set(i, saved.shape[other]);
    second.strides.set(i, saved.strides[other]);
  }
  if (gradient == GemmGradient::of_second) std::swap(first, second);
}

namespace {

void append_forward(const Graph& graph, const RunConfig& run, StepWriter& writer) {
  std::optional<PackedOnHost> packed;
  if (run.offload_saved) packed.emplace(graph);
  auto replaced = graph.replaced_buffers.begin();  // in the order of the operations that make the new ones
  std::vector<TensorId> constants;                 // not read so far
  std::ranges::copy_if(graph.model_storage, std::back_inserter(constants),
                       [&](TensorId t) { return is_constant(graph, t); });
  const std::vector<SavedUntil> unreached = saved_for_nothing(graph);
  auto dies = unreached.begin();
  for (std::size_t i = 0; i < graph.forward_ops.size(); ++i) {
    const Op& op = graph.forward_ops[i];
    const bool marker = std::holds_alternative<Marker>(op.what) && graph.at(op.writes).empty();
    const bool divides = static_cast<std::int32_t>(i) == graph.division;
    const Phase phase = divides                                           ? Phase::backward
                        : static_cast<std::int32_t>(i) < graph.loss_begin ? Phase::forward
                                                                          : Phase::loss;
    if (packed) packed->before(static_cast<std::int32_t>(i), writer, phase);
    writer.begin(op.kind, op.layer, phase, marker ? nullptr : &op.what);
    for (const TensorId t : graph.at(op.reads)) {
      writer.read(buffer_of(graph, t));
      const auto read = std::ranges::find(constants, buffer_of(graph, t),
                                          [&](TensorId constant) { return buffer_of(graph, constant); });
      if (read == constants.end()) continue;
      Schedule& s = writer.schedule();
      const auto of =
          std::ranges::find(graph.converted_buffers, buffer_of(graph, t), [](const auto& c) { return c.second; });
      s.constants.push_back({static_cast<std::int32_t>(s.ops.size()) - 1, *read, buffer_of(graph, t),
                             of == graph.converted_buffers.end() ? kNone : of->first});
      constants.erase(read);
    }
    for (const TensorId t : graph.at(op.writes)) writer.allocate(buffer_of(graph, t));
    for (; dies != unreached.end() && dies->op == static_cast<std::int32_t>(i); ++dies) writer.read(dies->saved);
    writer.record(graph, op, [&](TensorId t) { return view_of(graph.tensor(t), buffer_of(graph, t)); });
    for (const TensorId t : graph.at(op.writes)) {
      if (replaced == graph.replaced_buffers.end() || buffer_of(graph, t) != replaced->second) continue;
      writer.schedule().replacements.push_back({static_cast<std::int32_t>(i), replaced->first, replaced->second});
      ++replaced;
    }
  }
}

// A reentrant checkpoint's first forward makes no nodes, and those of its second one go with its own graph. Another
// one's are made by the first forward, and keep all but saved tensors.
bool is_run_again(const Graph& graph, NodeId node) {
  return std::ranges::any_of(graph.checkpoints, [&](const Checkpoint& c) {
    return c.reentrant && c.nodes.begin <= node && node < c.nodes.end;
  });
}

// What the training loop's names keep alive beyond the operations that read it.
// ModelBuilder::constant, which stays without being held.
bool is_made_once(const Graph& graph, TensorId t) {
  const BufferId buffer = buffer_of(graph, t);
  return is_constant(graph, t) &&
         std::ranges::any_of(graph.model_storage, [&](TensorId made) { return buffer_of(graph, made) == buffer; });
}

void hold_results(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept) {
  Schedule& s = writer.schedule();
  const auto is_model_storage = [&](BufferId b) {
    const Category c = s.buffers[static_cast<std::size_t>(b)].category;
    return c == Category::parameters || c == Category::buffers || c == Category::inputs;
  };
  const BufferId output = buffer_of(graph, graph.output);
  std::vector<BufferId> beside;
  for (const TensorId t : graph.kept_with_output) beside.push_back(buffer_of(graph, t));
  if (graph.loss != kNone && !beside.empty()) {
    const std::vector<BufferId> saved = saved_beside_loss(graph);
    beside.insert(beside.end(), saved.begin(), saved.end());
  }
  if (graph.loss != kNone && run.loop == Loop::loss_only) {
    writer.mark("del output", kNone, Phase::loss);
    writer.read(output);
    for (const BufferId b : beside)
      if (!is_model_storage(b)) writer.read(b);
    beside.clear();
  } else if (!is_model_storage(output)) {
    s.output = output;
    kept[static_cast<std::size_t>(output)] = 1;
  }
  if (graph.loss != kNone)  // whose nodes hold the leaves
    for (const TensorId t : graph.leaves) beside.push_back(buffer_of(graph, t));
  if (graph.loss != kNone)
    for (const HeldByNode& held : graph.held_by_nodes)
      if (!is_run_again(graph, held.node) && !is_made_once(graph, held.tensor))
        beside.push_back(buffer_of(graph, held.tensor));
  const auto buffer_or_none = [&](TensorId t) { return t == kNone ? kNone : buffer_of(graph, t); };
  // Trainer.training_step() returns the model's, detached.
  const bool names_model_loss = run.loop != Loop::loss_only || run.like == Like::trainer;
  const BufferId loss = buffer_or_none(graph.division != kNone ? graph.model_loss : graph.loss);
  const BufferId model_loss = names_model_loss && graph.division == kNone ? buffer_or_none(graph.model_loss) : kNone;
  const auto has_a_name = [&](BufferId b) {
    return kept[static_cast<std::size_t>(b)] != 0 || b == loss || b == model_loss || is_model_storage(b);
  };
  for (const BufferId b : beside) {
    if (has_a_name(b)) continue;
    s.beside_results.push_back(b);
    kept[static_cast<std::size_t>(b)] = 1;
  }
  if (graph.loss != kNone) {
    s.loss = loss;
    if (model_loss != kNone) {
      s.model_loss = model_loss;
      kept[static_cast<std::size_t>(model_loss)] = 1;
    }
    if (s.output == s.loss || s.output == s.model_loss) s.output = kNone;  // of a model that returns its loss alone
    kept[static_cast<std::size_t>(s.loss)] = 1;
  }
}

}  // namespace

Schedule make_schedule(const Graph& graph, const RunConfig& run, const Gpu& gpu, const Schedule* first, Calls* calls,
                       const Schedule* before, const SplitBackward* split) {
  if (before == nullptr) before = first;
  Schedule s;
  s.buffers = before != nullptr ? before->buffers : graph.buffers;
  const std::size_t ops = graph.forward_ops.size() + graph.backward_ops.size();
  s.buffers.reserve(s.buffers.size() + 2 * graph.backward_ops.size());
  s.ops.reserve(2 * ops);
  s.allocated.reserve(2 * ops);
  s.reads.reserve(6 * ops);
  std::vector<char> kept(s.buffers.size(), 0);
  for (const auto& [old_buffer, new_buffer] : graph.replaced_buffers) kept[static_cast<std::size_t>(new_buffer)] = 1;

  StepWriter writer(s, run, gpu, calls);
  append_forward(graph, run, writer);
  hold_results(graph, run, writer, kept);
  if (split != nullptr)
    append_split_backward(graph, *split, run, writer, kept, first);
  else if (graph.loss != kNone)
    append_backward(graph, run, writer, kept, first);
  if (graph.loss != kNone && graph.division != kNone) {
    writer.mark("accelerator.backward", kNone, Phase::backward);
    writer.read(buffer_of(graph, graph.loss));
  }
  kept.resize(s.buffers.size(), 0);
  if (run.stage && !run.stage->last) kept[static_cast<std::size_t>(received_gradient(s))] = 1;
  find_lifetimes(s, kept);
  return s;
}

BufferId received_gradient(const Schedule& schedule) {
  const auto root = std::ranges::find(schedule.ops, Phase::backward, &ScheduledOp::phase);
  return schedule.allocated[static_cast<std::size_t>(root->allocates.begin)];
}

std::int32_t backward_returns(const Schedule& schedule) {
  const auto end = std::ranges::find(schedule.ops.rbegin(), schedule.ops.rend(), kBackwardReturns, &ScheduledOp::name);
  return static_cast<std::int32_t>(end == schedule.ops.rend()
                                       ? std::ssize(schedule.ops)
                                       : std::ssize(schedule.ops) - 1 - (end - schedule.ops.rbegin()));
}

std::int32_t gradient_place(const Schedule& schedule, std::int32_t parameter) {
  const std::vector<std::int32_t>& all = schedule.with_gradient;
  const auto found = std::ranges::lower_bound(all, parameter);
  return found != all.end() && *found == parameter ? static_cast<std::int32_t>(found - all.begin()) : kNone;
}

}  // namespace gpuplan
