#include "estimator/schedule/recompute.h"

#include <algorithm>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr Primitive kFromHost{Marker{}};  // cudaMemcpy: no kernel

}  // namespace

Recompute::Recompute(const Graph& graph, StepWriter& writer, bool given_on_host)
    : graph_(graph), writer_(writer), at_(graph.checkpoints.size()), given_on_host_(given_on_host) {
  if (!graph.checkpoints.empty()) again_.assign(graph.buffers.size(), kNone);
}

bool Recompute::saves(NodeId id) const {
  const AutogradNode& n = graph_.nodes[index(id)];
  return n.saved.begin != n.saved.end;
}

void Recompute::enter(NodeId id) {
  inside_ = false;
  while (at_ > 0 && id < graph_.checkpoints[at_ - 1].nodes.begin) {
    --at_;
    done_ = false;
    std::ranges::fill(again_, kNone);
  }
  if (at_ == 0 || id >= graph_.checkpoints[at_ - 1].nodes.end) return;
  inside_ = true;
  if (done_ || !(saves(id) || graph_.checkpoints[at_ - 1].reentrant)) return;
  run(graph_.checkpoints[at_ - 1]);
  done_ = true;
}

std::span<const TensorId> Recompute::leave(NodeId id) {
  if (!inside_) return {};
  const Checkpoint& c = graph_.checkpoints[at_ - 1];
  if (c.reentrant) return id == c.nodes.begin ? graph_.at(c.given) : std::span<const TensorId>();
  if (!saves(id)) return {};
  for (NodeId n = c.nodes.begin; n < id; ++n)
    if (saves(n)) return {};
  const std::span<const TensorId> given = graph_.at(c.given);
  if (!c.selective && !given_on_host_) return given;
  left_.assign(given.begin(), given.end());
  if (given_on_host_) {
    const std::vector<TensorId> away = given_to_host(graph_, c);
    std::erase_if(left_, [&](TensorId t) { return std::ranges::find(away, t) != away.end(); });
  }
  if (!c.selective) return left_;
  // The policy's storage goes with the checkpoint; an early stop has left in it what would have come later.
  const std::vector<char> kept = kept_by_policy(graph_, c);
  for (std::int32_t i = early_stop(c); i < c.ops.end; ++i)
    if (kept[index(i - c.ops.begin)] != 0)
      for (const TensorId t : graph_.at(graph_.forward_ops[index(i)].writes)) left_.push_back(t);
  return left_;
}

bool Recompute::returns(TensorId t) const {
  if (!inside_ || !graph_.checkpoints[at_ - 1].reentrant) return false;
  const std::span<const TensorId> returned = graph_.at(graph_.checkpoints[at_ - 1].returned);
  return std::ranges::find(returned, t) != returned.end();
}

std::span<const TensorId> Recompute::returned(NodeId id) const {
  if (!inside_) return {};
  const Checkpoint& c = graph_.checkpoints[at_ - 1];
  return c.reentrant && id == c.nodes.begin ? graph_.at(c.returned) : std::span<const TensorId>();
}

// The first forward operation that is not run again. An operation's inputs are saved before it runs, so the one that
// saves the last tensors runs only when its own results are among them.
std::int32_t Recompute::early_stop(const Checkpoint& c) const {
  NodeId last = c.nodes.end;
  while (last > c.nodes.begin && !saves(last - 1)) --last;
  if (last == c.nodes.begin) return c.ops.begin;
  const AutogradNode& n = graph_.nodes[index(last - 1)];
  const auto saved = std::span(graph_.saved).subspan(index(n.saved.begin), index(n.saved.end - n.saved.begin));
  const std::span<const std::int32_t> results = graph_.at(graph_.forward_ops[index(n.op)].writes);
  const bool of_its_own = std::ranges::any_of(saved, [&](TensorId t) {
    return std::ranges::any_of(results, [&](TensorId r) { return buffer_of(graph_, r) == buffer_of(graph_, t); });
  });
  return of_its_own ? n.op + 1 : n.op;
}

// What the first forward let go of from outside of the checkpoint, as what a collective had sent, is gone.
bool Recompute::is_there(std::span<const TensorId> kept, const Checkpoint& c, TensorId t) const {
  const BufferId b = buffer_of(graph_, t);
  const auto has = [&](TensorId other) { return buffer_of(graph_, other) == b; };
  return buffer(b) != b || std::ranges::any_of(graph_.at(c.given), has) || std::ranges::any_of(kept, has);
}

void Recompute::run(const Checkpoint& c) {
  const std::int32_t end = c.reentrant ? c.ops.end : early_stop(c);
  inside_ = true;
  if (given_on_host_) copy_back(c);
  const std::vector<char> kept = kept_by_policy(graph_, c);
  std::vector<TensorId> taken;
  for (std::int32_t i = c.ops.begin; i < end; ++i) {
    const Op& op = graph_.forward_ops[index(i)];
    if (kept[index(i - c.ops.begin)] != 0) {  // it was there all the time, and is taken out of the policy's storage
      writer_.mark("kept by policy", op.layer, Phase::backward);
      for (const TensorId t : graph_.at(op.writes)) {
        writer_.read(buffer_of(graph_, t));
        taken.push_back(t);
      }
      continue;
    }
    const bool marker = std::holds_alternative<Marker>(op.what) && graph_.at(op.writes).empty();
    writer_.begin(op.kind, op.layer, Phase::backward, marker ? nullptr : &op.what);
    writer_.schedule().ops.back().recompute = true;
    for (const TensorId t : graph_.at(op.reads))
      if (!marker || is_there(taken, c, t)) writer_.read(buffer(buffer_of(graph_, t)));
    for (const TensorId t : graph_.at(op.writes)) {
      const BufferId forward = buffer_of(graph_, t);
      const Buffer& b = graph_.buffers[index(forward)];
      again_[index(forward)] = writer_.new_buffer(b.bytes, b.category, b.layer);
      writer_.allocate(again_[index(forward)]);
    }
    writer_.record(graph_, op,
                   [&](TensorId t) { return view_of(graph_.tensors[index(t)], buffer(buffer_of(graph_, t))); });
  }
  // The frames that were running still name what they would have used.
  if (end < c.ops.end) writer_.mark("early stop", kNone, Phase::backward);
  for (std::int32_t i = end; i < c.ops.end; ++i)
    for (const TensorId t : graph_.at(graph_.forward_ops[index(i)].reads))
      if (const BufferId made = buffer(buffer_of(graph_, t)); made != buffer_of(graph_, t)) writer_.read(made);
  if (given_on_host_) {
    writer_.mark("unpack_hook returns", kNone, Phase::backward);
    for (const TensorId t : given_to_host(graph_, c)) writer_.read(buffer(buffer_of(graph_, t)));
  }
  if (graph_.autocast_casts.empty()) return;
  // The recomputation has an autocast context of its own, whose cache goes with it.
  writer_.mark("autocast ends", kNone, Phase::backward);
  for (const TensorId t : graph_.autocast_casts)
    if (const BufferId cast = buffer_of(graph_, t); buffer(cast) != cast) writer_.read(buffer(cast));
}

void Recompute::copy_back(const Checkpoint& c) {
  for (const TensorId t : given_to_host(graph_, c)) {
    const Tensor& tensor = graph_.tensor(t);
    const BufferId forward = buffer_of(graph_, t);
    const Buffer& b = graph_.buffers[index(forward)];
    writer_.begin(Operator::to, graph_.forward_ops[index(c.ops.begin)].layer, Phase::backward, &kFromHost);
    writer_.schedule().ops.back().recompute = true;
    again_[index(forward)] =
        writer_.new_buffer(checked_mul(tensor.shape.elements(), size_of(tensor.dtype)), b.category, b.layer);
    writer_.allocate(again_[index(forward)]);
  }
}

std::vector<TensorId> given_to_host(const Graph& graph, const Checkpoint& c) {
  std::vector<TensorId> away;
  const std::span<const TensorId> given = graph.at(c.given);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (const Tensor& t = graph.tensor(given[i]); i == 0 || (t.requires_grad && !t.trained)) away.push_back(given[i]);
  return away;
}

std::vector<char> kept_by_policy(const Graph& graph, const Checkpoint& c) {
  std::vector<char> kept(index(c.ops.end - c.ops.begin), 0);
  if (!c.selective) return kept;
  int products = 0;
  for (std::int32_t i = c.ops.begin; i < c.ops.end; ++i) {
    const Operator kind = graph.forward_ops[index(i)].kind;
    const bool attention = kind == Operator::_scaled_dot_product_flash_attention ||
                           kind == Operator::_scaled_dot_product_efficient_attention;
    if (kind == Operator::mm) ++products;
    kept[index(i - c.ops.begin)] = attention || (kind == Operator::mm && products % 2 != 0) ? 1 : 0;
  }
  return kept;
}

std::vector<char> recomputed_buffers(const Graph& graph) {
  std::vector<char> recomputed(graph.buffers.size(), 0);
  for (const Checkpoint& c : graph.checkpoints) {
    const std::vector<char> kept = kept_by_policy(graph, c);
    for (std::int32_t i = c.ops.begin; i < c.ops.end; ++i)
      if (kept[index(i - c.ops.begin)] == 0)
        for (const TensorId t : graph.at(graph.forward_ops[index(i)].writes))
          recomputed[index(buffer_of(graph, t))] = 1;
  }
  return recomputed;
}

}  // namespace gpuplan
