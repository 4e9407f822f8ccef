#include "estimator/optimizer/trainer_tensors.h"

#include <algorithm>
#include <utility>

#include "estimator/base/dtype.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

using Kind = OptimizerEvent::Kind;

constexpr std::int64_t kNumber = 4, kInteger = 8, kTruth = 1;

// Slots of names, in which the old value goes once the new one is there.
enum class Name : std::int32_t { labels, items, sum, loss, norm, evaluated_items, shifted, positions };
// Slots of temporaries.
enum class Temporary : std::int32_t { mask, count, total, wide };

class Program {
 public:
  Program& make(Temporary slot, std::int64_t bytes) {
    return add(Kind::alloc_tensor, static_cast<std::int32_t>(slot), bytes);
  }
  Program& drop(Temporary slot) { return add(Kind::free, static_cast<std::int32_t>(slot), 0); }
  Program& name(Name slot, std::int64_t bytes) {
    return add(Kind::alloc_input, static_cast<std::int32_t>(slot), bytes);
  }
  Program& bind(Name slot, std::int64_t bytes) { return name(slot, bytes).forget(slot); }
  Program& forget(Name slot) { return add(Kind::free_input, static_cast<std::int32_t>(slot), 0); }
  Program& leave(Name slot) { return add(Kind::drop_input, static_cast<std::int32_t>(slot), 0); }
  OptimizerProgram take() { return std::move(program_); }

 private:
  Program& add(Kind kind, std::int32_t slot, std::int64_t bytes) {
    program_.events.push_back({kind, slot, bytes});
    if (kind == Kind::alloc_tensor) program_.kernels += 1;
    return *this;
  }

  OptimizerProgram program_;
};

std::int64_t labels_bytes(const Graph& graph) {
  return graph.labels == kNone ? 0 : graph.buffers[index(graph.tensor(graph.labels).buffer)].bytes;
}

// Also what the model embeds; an export of a batch with labels has an input for them.
bool are_tokens(const Graph& graph) {
  return std::ranges::any_of(graph.forward_ops, [&](const Op& op) {
    if (op.layer == kNone || graph.layers[index(op.layer)].name == "loss") return false;
    return std::ranges::any_of(graph.at(op.reads),
                               [&](TensorId t) { return buffer_of(graph, t) == buffer_of(graph, graph.labels); });
  });
}

// The type that all gradients are promoted to.
std::int64_t norm_bytes(const Graph& graph) {
  std::int64_t bytes = 2;
  for (const ParameterTensor& p : graph.parameters)
    if (p.trainable) bytes = std::max<std::int64_t>(bytes, size_of(graph.tensor(p.tensor).dtype));
  return bytes;
}

// Trainer.get_batch_samples(): sum((batch["labels"].ne(-100)).sum() for batch in batches), as a float on the device.
void count_items(std::int64_t labels, Name name, Program& p) {
  const std::int64_t tokens = labels / kInteger;
  p.make(Temporary::mask, tokens * kTruth)
      .make(Temporary::count, kInteger)
      .make(Temporary::wide, labels)
      .drop(Temporary::wide)
      .drop(Temporary::mask);
  p.make(Temporary::total, kInteger).drop(Temporary::count).name(name, kNumber).drop(Temporary::total);
}

// Trainer._prepare_context_parallel_inputs(): labels padded and shifted, and positions of one sample, whose storage
// grows where the rank's of all samples are more.
void name_context(const Graph& graph, const RunConfig& run, Program& p) {
  const Shape tokens = graph.tensor(graph.labels).shape;
  const std::int64_t bytes = tokens.elements() * kInteger;
  p.leave(Name::shifted).leave(Name::positions);
  p.make(Temporary::wide, bytes + tokens[0] * kInteger).name(Name::shifted, bytes);
  p.name(Name::positions, std::max(tokens[1] * kInteger, bytes / run.context_ranks)).drop(Temporary::wide);
}

// The logged loss is that of the step before until this one's is there; logging_nan_inf_filter looks at it.
void keep_loss(std::int64_t loss_bytes, Program& p) {
  p.bind(Name::loss, loss_bytes).make(Temporary::mask, kTruth).drop(Temporary::mask);
  p.make(Temporary::count, kNumber).make(Temporary::mask, kTruth).drop(Temporary::count).drop(Temporary::mask);
}

// prediction_step() counts the items of its batch, too.
TrainerTensors of_evaluation(const Graph& graph, const RunConfig& run) {
  TrainerTensors t;
  const std::int64_t labels = labels_bytes(graph);
  if (run.like == Like::pytorch || labels == 0) return t;
  if (are_tokens(graph)) t.labels_bytes = labels;
  if (run.like != Like::trainer) return t;
  Program batch, end;
  count_items(labels, Name::evaluated_items, batch);
  end.leave(Name::evaluated_items);
  t.batch = batch.take();
  t.end = end.take();
  return t;
}

}  // namespace

TrainerTensors trainer_tensors(const Graph& graph, const RunConfig& run) {
  if (run.evaluates) return of_evaluation(graph, run);
  TrainerTensors t;
  if (run.mode == Mode::infer || run.like == Like::pytorch) return t;
  const bool trainer = run.like == Like::trainer;
  const std::int64_t labels = labels_bytes(graph);
  Program begin, batch, loss, backward, clipped, end;
  if (run.like == Like::lightning) {  // ClosureResult: loss.detach().clone()
    loss.name(Name::loss, kNumber);
    end.leave(Name::loss);
  }
  if (trainer) begin.name(Name::sum, kNumber);  // _tr_loss
  const bool another = labels > 0 && are_tokens(graph);
  if (another) batch.name(Name::labels, labels);
  if (labels > 0 && trainer) count_items(labels, Name::items, batch);
  if (another) batch.forget(Name::labels);
  if (labels > 0 && trainer) batch.forget(Name::items);
  if (run.context_ranks > 1) name_context(graph, run, batch);
  if (trainer) {
    keep_loss(size_of(graph.tensor(graph.loss).dtype), backward);
    clipped.bind(Name::norm, norm_bytes(graph));
  }
  return {begin.take(), batch.take(), loss.take(), backward.take(), clipped.take(), end.take()};
}

}  // namespace gpuplan
