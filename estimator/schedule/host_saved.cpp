#include "estimator/schedule/host_saved.h"

#include <algorithm>
#include <span>

#include "estimator/base/integers.h"
#include "estimator/base/strides.h"
#include "estimator/schedule/recompute.h"

namespace gpuplan {
namespace {

constexpr Primitive kCopyAcross{Marker{}};  // cudaMemcpy: no kernel

std::int64_t bytes_of(const Tensor& t) { return t.shape.elements() * size_of(t.dtype); }

// Each saved variable once, however many kernels of the node read it.
std::vector<TensorId> saved_by(const Graph& graph, const AutogradNode& n) {
  std::vector<TensorId> once;
  for (std::int32_t i = n.saved.begin; i < n.saved.end; ++i)
    if (std::ranges::find(once, graph.saved[index(i)]) == once.end()) once.push_back(graph.saved[index(i)]);
  return once;
}

// One char a node: 1 within a checkpoint.
std::vector<char> in_checkpoints(const Graph& graph) {
  std::vector<char> inside(graph.nodes.size(), 0);
  for (const Checkpoint& c : graph.checkpoints)
    std::fill(inside.begin() + c.nodes.begin, inside.begin() + c.nodes.end, char{1});
  return inside;
}

}  // namespace

PackedOnHost::PackedOnHost(const Graph& graph) : graph_(graph) {
  const std::vector<char> inside = in_checkpoints(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (inside[n] != 0) continue;
    for (const TensorId t : saved_by(graph, graph.nodes[n]))
      if (!is_dense(graph.tensor(t).shape, graph.tensor(t).strides)) with_gaps_.emplace_back(graph.nodes[n].op, t);
  }
}

void PackedOnHost::before(std::int32_t op, StepWriter& writer, Phase phase) {
  for (; next_ < with_gaps_.size() && with_gaps_[next_].first <= op; ++next_) {
    const LayerId layer = graph_.forward_ops[index(op)].layer;
    writer.begin(Operator::contiguous, layer, phase, &kCopyAcross);
    writer.allocate(writer.new_buffer(bytes_of(graph_.tensor(with_gaps_[next_].second)), Category::scratch, layer));
  }
}

void UnpackedFromHost::enter(NodeId id) {
  copies_.clear();
  const AutogradNode& n = graph_.nodes[index(id)];
  for (const TensorId t : saved_by(graph_, n)) {
    writer_.begin(Operator::to, n.layer, Phase::backward, &kCopyAcross);
    copies_.emplace_back(t, writer_.new_buffer(bytes_of(graph_.tensor(t)), Category::activations, n.layer));
    writer_.allocate(copies_.back().second);
  }
}

BufferId UnpackedFromHost::copy_of(TensorId t) const {
  const auto found = std::ranges::find(copies_, t, [](const auto& c) { return c.first; });
  return found == copies_.end() ? kNone : found->second;
}

void UnpackedFromHost::leave() {
  if (copies_.empty()) return;
  writer_.mark("apply returns", kNone, Phase::backward);
  for (const auto& [tensor, copy] : copies_) writer_.read(copy);
  copies_.clear();
}

HostTraffic saved_traffic(const Graph& graph, const std::vector<char>& reached) {
  HostTraffic traffic;
  const std::vector<char> inside = in_checkpoints(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (inside[n] != 0) continue;
    for (const TensorId t : saved_by(graph, graph.nodes[n])) {
      traffic.to_host_bytes = checked_add(traffic.to_host_bytes, bytes_of(graph.tensor(t)));
      if (reached[n] != 0) traffic.from_host_bytes = checked_add(traffic.from_host_bytes, bytes_of(graph.tensor(t)));
    }
  }
  for (const Checkpoint& c : graph.checkpoints) {
    const bool runs_again = std::any_of(reached.begin() + c.nodes.begin, reached.begin() + c.nodes.end,
                                        [](char node) { return node != 0; });
    for (const TensorId t : given_to_host(graph, c)) {
      traffic.to_host_bytes = checked_add(traffic.to_host_bytes, bytes_of(graph.tensor(t)));
      if (runs_again) traffic.from_host_bytes = checked_add(traffic.from_host_bytes, bytes_of(graph.tensor(t)));
    }
  }
  return traffic;
}

}  // namespace gpuplan
