#include <optional>
#include <vector>

#include "estimator/schedule/backward.h"
#include "estimator/schedule/engine.h"

namespace gpuplan {
namespace {

/// stage_backward_input() with retain_graph=True, so that nothing saved goes, and stage_backward_weight().
class SplitWriter {
 public:
  SplitWriter(const Graph& graph, const SplitBackward& split, const RunConfig& run, StepWriter& writer,
              std::vector<char>& kept, const Schedule* first)
      : graph_(graph), split_(split), writer_(writer), reached_(reached_nodes(graph)), weighs_(graph.nodes.size(), 0) {
    std::vector<char> noted(graph.nodes.size(), 0);
    for (const SplitBackward::Group& g : split.groups) {
      for (const NodeId n : g.from) noted[static_cast<std::size_t>(n)] = 1;
      for (const NodeId n : g.nodes) weighs_[static_cast<std::size_t>(n)] = 1;
    }
    inputs_ = Engine(split.inputs, run, writer, kept, nullptr, reached_nodes(split.inputs)).run_noting(noted);
    weights_.emplace(split.weights, run, writer, kept, first, weighs_, true);
  }

  // A group's names are bound anew when the next one begins; what they held goes then, and nodes with what they have
  // saved that no later group leads to. The last gradient of a weight has a name until there is another one.
  void write() {
    writer_.mark("stage_backward_input returns", kNone, Phase::backward);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (reached_[n] != 0) read_saved(n);
    Schedule& s = writer_.schedule();
    s.weights_begin = static_cast<std::int32_t>(s.ops.size());
    for (std::size_t g = 0; g < split_.groups.size(); ++g) {
      writer_.mark("param_groups", kNone, Phase::backward);
      if (g > 0) leave(g - 1);
      const std::size_t before = s.ops.size();
      weights_->run_group(split_.groups[g], inputs_);
      name_last_gradient(before);
    }
    writer_.mark("stage_backward_weight returns", kNone, Phase::backward);
    if (!split_.groups.empty()) leave(split_.groups.size() - 1);
    if (named_ != kNone) writer_.read(named_);
    weights_->collect_gradients();
  }

 private:
  void read_saved(std::size_t node) {
    const AutogradNode& n = graph_.nodes[node];
    for (std::int32_t i = n.saved.begin; i < n.saved.end; ++i)
      writer_.read(tensor_of(graph_, graph_.saved[static_cast<std::size_t>(i)]).buffer);
  }

  void leave(std::size_t group) {
    for (const NodeId n : split_.groups[group].from)
      for (const GradientTensor& g : inputs_[static_cast<std::size_t>(n)])
        if (g.buffer != kNone) writer_.read(g.buffer);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (reached_[n] != 0 && weighs_[n] == 0 && split_.last_group[n] == static_cast<std::int32_t>(group))
        read_saved(n);
  }

  // What was added last to the gradient that is there.
  void name_last_gradient(std::size_t before) {
    const Schedule& s = writer_.schedule();
    if (s.ops.size() == before) return;
    const BufferId named = named_;
    const ScheduledOp& last = s.ops.back();
    named_ = last.op == Operator::add_ ? s.reads[static_cast<std::size_t>(last.reads.end) - 1] : kNone;
    if (named == kNone) return;
    writer_.mark("dweights", kNone, Phase::backward);
    writer_.read(named);
  }

  const Graph& graph_;
  const SplitBackward& split_;
  StepWriter& writer_;
  std::vector<char> reached_, weighs_;  // by node; weighs_: one of a group's
  std::vector<Engine::Arrived> inputs_;
  std::optional<Engine> weights_;
  BufferId named_ = kNone;
};

}  // namespace

void append_split_backward(const Graph& graph, const SplitBackward& split, const RunConfig& run, StepWriter& writer,
                           std::vector<char>& kept, const Schedule* first) {
  SplitWriter(graph, split, run, writer, kept, first).write();
}

}  // namespace gpuplan
