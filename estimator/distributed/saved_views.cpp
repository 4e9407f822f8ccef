#include "estimator/distributed/saved_views.h"

#include <algorithm>
#include <unordered_map>

#include "estimator/base/integers.h"

namespace gpuplan {

std::vector<SavedView> saved_views(const Graph& graph, const Schedule& schedule) {
  std::unordered_map<BufferId, std::int32_t> number;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    number.emplace(buffer_of(graph, graph.parameters[i].tensor), static_cast<std::int32_t>(i));
  std::unordered_map<const Primitive*, std::int32_t> step_of;
  for (std::size_t i = 0; i < schedule.ops.size(); ++i)
    if (schedule.ops[i].phase == Phase::backward) step_of[schedule.ops[i].what] = static_cast<std::int32_t>(i);
  std::vector<SavedView> views;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const AutogradNode& node = graph.nodes[n];
    // F.linear is DeepSpeed's own (zero/linear.py), which saves the weight and not its transpose.
    if (node.name == "MmBackward0" || node.name == "AddmmBackward0") continue;
    std::int32_t last = kNone;
    for (std::int32_t i = node.ops.begin; i < node.ops.end; ++i)
      if (const auto found = step_of.find(&graph.backward_ops[index(i)].what); found != step_of.end())
        last = std::max(last, found->second);
    const bool again = std::ranges::any_of(graph.checkpoints, [&](const Checkpoint& c) {
      return static_cast<std::int32_t>(n) >= c.nodes.begin && static_cast<std::int32_t>(n) < c.nodes.end;
    });
    for (std::int32_t s = node.saved.begin; s < node.saved.end && last != kNone; ++s) {
      const TensorId t = graph.saved[index(s)];
      const auto found = number.find(buffer_of(graph, t));
      // transformers' experts hand over their weights turned.
      const bool turned = node.name == "GroupedMmBackward0";
      if (found != number.end() && (turned || graph.parameters[index(found->second)].tensor != t))
        views.push_back({found->second, last + 1, again});
    }
  }
  std::ranges::stable_sort(views, {}, &SavedView::step);
  return views;
}

}  // namespace gpuplan
