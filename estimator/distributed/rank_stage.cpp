#include "estimator/distributed/rank_stage.h"

#include <algorithm>
#include <cstddef>

#include "estimator/base/integers.h"

namespace gpuplan {

RankStage rank_stage(const Graph& graph, const MicroBatchSchedules& micro_batches, std::int64_t number,
                     std::int64_t stages) {
  RankStage stage;
  stage.number = number;
  stage.first = number == 0;
  stage.last = number + 1 == stages;
  const Schedule& any = micro_batches.schedules.front();
  if (!stage.first) stage.states = buffer_of(graph, graph.inputs.front());
  stage.output = any.output;
  stage.loss = any.loss;
  for (const BufferTensor& b : graph.named_buffers) stage.named_buffers.push_back(buffer_of(graph, b.tensor));
  // The gradient of a leaf is the only one that backward makes of what goes with the graph.
  const auto of_backward = [&](const Schedule& s) {
    const auto made =
        std::ranges::find_if(s.beside_results, [&](BufferId b) { return index(b) >= graph.buffers.size(); });
    return stage.first || made == s.beside_results.end() ? kNone : *made;
  };
  for (const Schedule& s : micro_batches.schedules)
    stage.passes.push_back({phase_ranges(s), stage.last ? kNone : received_gradient(s), s.beside_results,
                            s.weights_begin, of_backward(s)});
  return stage;
}

RankStage moved_stage(RankStage stage, const JoinedPart& part) {
  const auto move = [&](BufferId& b) { b = part.buffer(b); };
  for (BufferId* const b : {&stage.states, &stage.output, &stage.loss}) move(*b);
  for (BufferId& b : stage.named_buffers) move(b);
  for (std::size_t p = 0; p < stage.passes.size(); ++p) {
    RankStage::Pass& pass = stage.passes[p];
    move(pass.received_gradient);
    move(pass.states_gradient);
    for (BufferId& b : pass.beside_results) move(b);
    if (pass.weights_begin != kNone) pass.weights_begin += part.steps[p][static_cast<std::size_t>(Phase::backward)];
    for (std::size_t phase = 0; phase < pass.steps.size(); ++phase) {
      const std::int32_t by = part.steps[p][phase];
      pass.steps[phase] = {pass.steps[phase].begin + by, pass.steps[phase].end + by};
    }
  }
  return stage;
}

}  // namespace gpuplan
