#include "estimator/allocator/evaluation.h"

#include <utility>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kNumber = 4;  // bytes of an fp32

}  // namespace

Evaluation::Held Evaluation::holding(BlockId block, Category category) {
  if (block == kNoBlock) return nullptr;
  return {new BlockId(block), [this, category](const BlockId* held) {
            BlockId released = *held;
            delete held;
            blocks_.release_as(released, category);
          }};
}

Evaluation::Held Evaluation::made(std::int64_t bytes) {
  return holding(blocks_.allocate_bytes(bytes, Category::activations), Category::activations);
}

// torch.cat() of what there is and one more, of so many bytes; at first there is the one.
Evaluation::Held Evaluation::joined(const Held& all, const Held& one, std::int64_t bytes) {
  return all ? made(bytes) : one;
}

void Evaluation::take_batch() {
  const RankStep& step = *loop_.rank;
  for (const TensorId t : step.graph.inputs) {
    const BufferId b = step.graph.tensor(t).buffer;
    if (blocks_.block_of(b) == kNoBlock)
      blocks_.allocate(b);
    else
      blocks_.move(b);
  }
  const std::int64_t labels = step.optimizer.trainer.labels_bytes;
  if (labels > 0) batch_labels_ = holding(blocks_.allocate_bytes(labels, Category::inputs), Category::inputs);
  programs_.run_unobserved(step.optimizer.trainer.batch);
}

// The output first.
std::vector<Evaluation::Held> Evaluation::results() {
  const Schedule& s = loop_.schedule();
  std::vector<Held> all;
  const auto take = [&](BufferId b) {
    const BlockId block = blocks_.take(b);
    all.push_back(block == kNoBlock ? nullptr : holding(block, blocks_.buffer(b).category));
  };
  take(s.output);
  for (const BufferId b : s.beside_results) take(b);
  return all;
}

void Evaluation::take_results() {
  const EvaluationConfig& how = loop_.rank->run.evaluation;
  if (loop_.rank->run.like == Like::trainer) {
    predict();
  } else {
    std::vector<Held> now = results();
    if (how.keeps_logits) listed_.push_back(now.front());
    last_ = loop_.rank->run.loop == Loop::plain ? std::move(now) : std::vector<Held>();
  }
  ++steps_;
  ++on_device_;
  if (how.keeps_logits && how.accumulation_steps > 0 && steps_ % how.accumulation_steps == 0) move_to_host();
}

// prediction_step() returns the mean loss and, where metrics are computed, the logits and labels, to which the names of
// evaluation_loop() are bound; then come losses.repeat(batch_size) and EvalLoopContainer.add().
void Evaluation::predict() {
  const RankStep& step = *loop_.rank;
  const bool keeps = step.run.evaluation.keeps_logits;
  const std::int64_t samples = step.run.batch, n = on_device_ + 1;
  std::vector<Held> outputs = results();
  const std::int64_t logits = keeps ? blocks_.buffer(loop_.schedule().output).bytes : 0;
  Held mean = made(kNumber);
  Held kept = keeps ? outputs.front() : nullptr;
  outputs.clear();
  programs_.run_unobserved(step.optimizer.trainer.end);
  losses_ = std::move(mean);
  logits_ = std::move(kept);
  labels_ = keeps ? batch_labels_ : nullptr;
  losses_ = made(kNumber * samples);
  all_losses_ = joined(all_losses_, losses_, kNumber * samples * n);
  if (!keeps) return;
  all_logits_ = joined(all_logits_, logits_, logits * n);
  if (labels_) all_labels_ = joined(all_labels_, labels_, step.optimizer.trainer.labels_bytes * n);
}

// to_cpu_and_numpy(), del losses, logits, labels, inputs, and torch.cuda.empty_cache(); a loop of one's own moves its
// list.
void Evaluation::move_to_host() {
  on_device_ = 0;
  listed_.clear();
  if (loop_.rank->run.like != Like::trainer) return;
  all_losses_ = all_logits_ = all_labels_ = losses_ = logits_ = labels_ = nullptr;
  blocks_.empty_cache();
}

void Evaluation::release_batch() {
  for (const TensorId t : loop_.rank->graph.inputs) blocks_.release(loop_.rank->graph.tensor(t).buffer);
  batch_labels_ = nullptr;
}

void Evaluation::leave() {
  all_losses_ = all_logits_ = all_labels_ = losses_ = logits_ = labels_ = nullptr;
  listed_.clear();
  last_.clear();
  release_batch();
  steps_ = on_device_ = 0;
}

}  // namespace gpuplan
