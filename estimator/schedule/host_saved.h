// torch.autograd.graph.save_on_cpu: tensors saved for backward, including weights, are copied to the host, and each
// node that unpacks one gets its own copy on the device. Of a checkpointed part only what it was given is offloaded
// (recompute.h): torch.utils.checkpoint's own hooks are the inner ones there.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/step_writer.h"

namespace gpuplan {

/// Forward: tensor.cpu() makes a tensor with gaps or repeated elements contiguous on the device first.
class PackedOnHost {
 public:
  explicit PackedOnHost(const Graph& graph);
  /// Before forward operation `op`; operations come in ascending order.
  void before(std::int32_t op, StepWriter& writer, Phase phase);

 private:
  const Graph& graph_;
  std::vector<std::pair<std::int32_t, TensorId>> with_gaps_;  // by operation
  std::size_t next_ = 0;
};

/// Backward: the copies of the node that runs.
class UnpackedFromHost {
 public:
  UnpackedFromHost(const Graph& graph, StepWriter& writer) : graph_(graph), writer_(writer) {}
  void enter(NodeId id);
  /// The copy of a saved tensor; kNone where the node entered last has none.
  BufferId copy_of(TensorId t) const;
  /// The function that computes the gradients returns, and its names go.
  void leave();
  bool inside() const { return !copies_.empty(); }

 private:
  const Graph& graph_;
  StepWriter& writer_;
  std::vector<std::pair<TensorId, BufferId>> copies_;
};

/// Bytes that cross the link to the host in one forward, and back where a node of `reached` unpacks them.
struct HostTraffic {
  std::int64_t to_host_bytes = 0, from_host_bytes = 0;
};
HostTraffic saved_traffic(const Graph& graph, const std::vector<char>& reached);

}  // namespace gpuplan
