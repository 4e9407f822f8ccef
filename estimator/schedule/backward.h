// autograd's engine on a Graph: the order of the nodes, and how gradients are passed on and accumulated.
#pragma once

#include "estimator/graph/graph.h"
#include "estimator/schedule/pruned_graph.h"
#include "estimator/schedule/schedule.h"
#include "estimator/schedule/step_writer.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// Appends loss.backward() to the schedule: ones_like(loss), every reached node, gradient accumulation. Fills
/// Schedule::gradients and with_gradient, and marks their buffers in `kept`. `first`: see make_schedule.
void append_backward(const Graph& graph, const RunConfig& run, StepWriter& writer, std::vector<char>& kept,
                     const Schedule* first);

/// The same in two parts, from Schedule::weights_begin on those of weights. `split`: of the graph; both must outlive
/// the schedule.
void append_split_backward(const Graph& graph, const SplitBackward& split, const RunConfig& run, StepWriter& writer,
                           std::vector<char>& kept, const Schedule* first);

/// One char a node: 1 when the loss's gradient reaches it.
std::vector<char> reached_nodes(const Graph& graph);

}  // namespace gpuplan
