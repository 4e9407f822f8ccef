// The inputs of a block's entries: the tensors that `from:` names, or else the output of the previous entry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "estimator/graph/block_names.h"
#include "estimator/graph/graph.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

class EntryInputs {
 public:
  /// Which of two branches: what runs in this mode, and what entries of the other mode see of each other. Those are
  /// built, too, for the sake of their weights.
  enum class Branch : std::uint8_t { active, inactive };

  /// What `x` is after an entry, in both.
  struct Current {
    TensorId active = kNone, inactive = kNone;
    TensorId in(Branch branch) const { return branch == Branch::active ? active : inactive; }
  };

  /// Mostly that is one tensor, for which nothing is allocated.
  struct Given {
    TensorId one = kNone;
    std::vector<TensorId> several;  // where `one` is kNone
    std::span<const TensorId> all() const& { return one != kNone ? std::span(&one, 1) : std::span(several); }
    std::span<const TensorId> all() && = delete;  // it would outlive what it is of
  };

  EntryInputs(Graph& graph, Mode mode) : graph_(graph), mode_(mode) {}

  /// The object that a Python name refers to now: in-place operations made new tensors of it. Each walk halves the way
  /// for the next one, so that changing a tensor in place over and over costs the same each time.
  TensorId latest(TensorId t) {
    while (t != kNone && graph_.tensor(t).replaced_by != kNone) {
      TensorId& next = graph_.tensor(t).replaced_by;
      if (const TensorId further = graph_.tensor(next).replaced_by; further != kNone) next = further;
      t = next;
    }
    return t;
  }

  /// `besides`: what an entry that names nothing is given with x. Throws Error for a name that stands for nothing.
  Given given_to(const Node& node, const Current& x, BlockNames& names, Branch branch,
                 std::span<const TensorId> besides);
  /// The result of an entry that does not run in a branch: its first input, or x.
  TensorId handed_on(const Node& node, const Current& x, BlockNames& names, Branch branch);

  /// Whether an entry of the other mode is being built. Returns what it was before.
  bool leave_out(bool left_out) { return std::exchange(leaves_out_, left_out); }
  /// These tensors are of such an entry.
  void did_not_run(Range tensors);

 private:
  void resolve(BlockNames& names, const Node& node, std::size_t i, Branch branch, std::vector<TensorId>& out);
  TensorId resolve(BlockNames& names, const Node& node, std::size_t i, Branch branch);
  TensorId ran(TensorId t, const Node& node, std::size_t i, Branch branch) const;

  Graph& graph_;
  Mode mode_;
  std::vector<Range> not_run_;  // tensors of entries of the other mode, in order
  bool leaves_out_ = false;
};

}  // namespace gpuplan
