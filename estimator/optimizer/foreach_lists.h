// torch._foreach_* operators on the lists of one group, for the transcriptions of _multi_tensor_*.
#pragma once

#include <algorithm>

#include "estimator/optimizer/multi_tensor_apply.h"
#include "estimator/optimizer/step_builder.h"

namespace gpuplan {

class ForeachLists {
 public:
  ForeachLists(StepBuilder& builder, ForeachGroup& group) : builder_(builder), group_(&group) {}

  /// `device_grads = cast(...)` at the head of the loop over groups: the former group's list goes.
  void enter(ForeachGroup& group, Tensors& gradients) {
    group_ = &group;
    builder_.drop(gradients);
  }

  /// An in-place operator; `lists` counts its operands.
  void in_place(int lists) { builder_.count_kernels(group_->launches(lists)); }
  /// The same with one scalar per tensor.
  void in_place_scalars(int lists) { builder_.count_kernels(group_->launches(lists, ForeachArguments::scalar_list)); }
  /// An operator with a result list; `lists` counts its operands and the result.
  Tensors result(int lists) {
    builder_.count_kernels(group_->launches(lists));
    return builder_.list(group_->parameters());
  }
  Tensors result_scalars(int lists) {
    builder_.count_kernels(group_->launches(lists, ForeachArguments::scalar_list));
    return builder_.list(group_->parameters());
  }
  /// An operator that reads the gradients so many times: DTensor sums Partial ones over the ranks for each.
  void read_gradients(int times) { builder_.read_partial(group_->parameters(), times); }
  /// [g.clone() for g in grads], kept as states: copies, not kernels.
  void clone_as_states() {
    for (const OptimizerParameter& parameter : group_->parameters())
      builder_.state(std::max(bytes_of(parameter), parameter.partial_elements * size_of(parameter.dtype)));
  }

  void bind(Tensors& name, Tensors value) { builder_.bind(name, value); }
  void drop(Tensors& name) { builder_.drop(name); }

 private:
  StepBuilder& builder_;
  ForeachGroup* group_;
};

}  // namespace gpuplan
