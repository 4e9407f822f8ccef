#include "estimator/allocator/carried_over.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

class Carrier {
 public:
  Carrier(const RankStep& from, const RankStep& to, const std::vector<BlockId>& blocks)
      : from_(from), to_(to), blocks_(blocks), rest_(blocks), carried_(last(to).buffers.size(), kNoBlock) {}

  std::vector<BlockId> carry_model() {
    for_each_pair(from_.graph.model_storage, to_.graph.model_storage, [&](TensorId old_tensor, TensorId new_tensor) {
      const BufferId old_one = buffer_of(from_.graph, old_tensor), new_one = buffer_of(to_.graph, new_tensor);
      if (last(from_).buffers[index(old_one)].bytes != last(to_).buffers[index(new_one)].bytes) refuse();
      carry(old_one, new_one);
    });
    return std::move(carried_);
  }

  std::vector<BlockId> carry() {
    carried_ = carry_model();
    for_each_pair(from_.graph.inputs, to_.graph.inputs, [&](TensorId old_tensor, TensorId new_tensor) {
      carry(buffer_of(from_.graph, old_tensor), buffer_of(to_.graph, new_tensor));
    });
    // The first micro-batch makes them, those after it add to them.
    if (from_.schedule().with_gradient != to_.schedule().with_gradient) refuse();
    for_each_pair(from_.schedule().gradient_of, to_.schedule().gradient_of,
                  [&](BufferId a, BufferId b) { carry(a, b); });
    const Schedule &old_steps = last(from_), &new_steps = last(to_);
    for_each_pair(old_steps.beside_results, new_steps.beside_results, [&](BufferId a, BufferId b) { carry(a, b); });
    carry(old_steps.output, new_steps.output);
    carry(old_steps.loss, new_steps.loss);
    carry(old_steps.model_loss, new_steps.model_loss);
    if (std::ranges::any_of(rest_, [](BlockId b) { return b != kNoBlock; })) refuse();
    return std::move(carried_);
  }

 private:
  static const Schedule& last(const RankStep& step) { return step.micro_batches.schedules.back(); }
  [[noreturn]] static void refuse() {
    throw Error("two batches of the loop are not run by the same operations, or the model keeps tensors of their sizes")
        .help("gpuplan shadow -- python train.py runs a script's loop as it is");
  }
  template <class Visit>
  static void for_each_pair(std::span<const std::int32_t> old_ones, std::span<const std::int32_t> new_ones,
                            const Visit& visit) {
    if (old_ones.size() != new_ones.size()) refuse();
    for (std::size_t i = 0; i < old_ones.size(); ++i) visit(old_ones[i], new_ones[i]);
  }

  void carry(BufferId old_one, BufferId new_one) {
    if (old_one == kNone && new_one == kNone) return;
    if (old_one == kNone || new_one == kNone) refuse();
    carried_[index(new_one)] = blocks_[index(old_one)];
    rest_[index(old_one)] = kNoBlock;
  }

  const RankStep &from_, &to_;
  const std::vector<BlockId>& blocks_;
  std::vector<BlockId> rest_, carried_;
};

}  // namespace

std::vector<BlockId> model_carried_over(const RankStep& from, const RankStep& to, const std::vector<BlockId>& blocks) {
  return Carrier(from, to, blocks).carry_model();
}

std::vector<BlockId> carried_over(const RankStep& from, const RankStep& to, const std::vector<BlockId>& blocks) {
  return Carrier(from, to, blocks).carry();
}

}  // namespace gpuplan
