// torch/optim/*.py, _fused_*: per dtype one multi_tensor_apply over parameters, gradients and states, after one that
// advances the step counters, which live on the device. Nothing is allocated, but for DTensor's sums of Partial
// gradients.
#include "estimator/optimizer/implementations.h"
#include "estimator/optimizer/multi_tensor_apply.h"

namespace gpuplan {
namespace {

/// Lists that the fused kernel walks: parameters, gradients, states.
int depth_of(const OptimizerConfig& config) {
  switch (config.kind) {
    case OptimizerKind::sgd: return config.momentum ? 3 : 2;
    case OptimizerKind::adagrad: return 3;
    default: return config.amsgrad ? 5 : 4;  // adam, adamw
  }
}

}  // namespace

void fused_step(const OptimizerStep& step, StepBuilder& builder) {
  std::vector<OptimizerParameter> counters;
  for (ForeachGroup& group : ForeachGroups(step.parameters, step.pytorch)) {
    if (step.config.kind != OptimizerKind::sgd) {
      counters.assign(group.parameters().size(), {1, DType::fp32});
      builder.count_kernels(foreach_launches(counters, 1, ForeachArguments::plain, step.pytorch));
    }
    builder.read_partial(group.parameters(), 1);
    builder.count_kernels(group.launches(depth_of(step.config)));
  }
}

}  // namespace gpuplan
