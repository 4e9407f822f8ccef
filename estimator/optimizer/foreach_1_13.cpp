// torch/optim/*.py of PyTorch 1.13, _multi_tensor_*: all parameters in one list whatever their dtype, weight decay
// added to the gradients in place (but for SGD), and more lists than later. Also stands in for 2.0, which was
// not recorded. Kernels are those of the fast path, which needs one dtype.
#include "estimator/optimizer/foreach_lists.h"
#include "estimator/optimizer/implementations.h"

namespace gpuplan {
namespace {

/// The lists, and what the functions below have in common.
class Lists : public ForeachLists {
 public:
  Lists(const OptimizerStep& step, StepBuilder& builder, ForeachGroup& group)
      : ForeachLists(builder, group), step_(step), builder_(builder) {}

  const OptimizerConfig& config() const { return step_.config; }
  bool first() const { return step_.first; }
  std::span<const OptimizerParameter> parameters() const { return step_.parameters; }
  StepBuilder& builder() { return builder_; }

  void decay_gradients() {
    if (config().weight_decay) in_place(2);
  }
  /// mul_(beta), add_(grads): an exponential average.
  void average() {
    in_place(1);
    in_place(2);
  }
  /// mul_(beta), addcmul_(grads, grads): of the squares.
  void average_squares() {
    in_place(1);
    in_place(3);
  }

 private:
  const OptimizerStep& step_;
  StepBuilder& builder_;
};

void sgd(Lists& lists) {
  Tensors grads;
  if (lists.config().weight_decay) lists.bind(grads, lists.result(3));
  if (lists.config().momentum) {
    if (lists.first()) {
      lists.clone_as_states();
    } else {
      lists.average();
    }
    if (lists.config().nesterov) {
      lists.in_place(2);
    } else {
      lists.drop(grads);
    }
  }
  lists.in_place(2);
  lists.drop(grads);
}

void adam(Lists& lists) {
  if (lists.config().kind == OptimizerKind::adamw) {
    lists.in_place(1);
  } else {
    lists.decay_gradients();
  }
  lists.average();
  lists.average_squares();
  if (lists.config().amsgrad) lists.in_place(2);
  Tensors root = lists.result(2);
  lists.in_place_scalars(1);  // div_
  Tensors denominator = lists.result(2);
  lists.in_place_scalars(3);  // addcdiv_
  lists.drop(denominator);
  lists.drop(root);
}

void rmsprop(Lists& lists) {
  lists.decay_gradients();
  lists.average_squares();
  if (lists.config().centered) lists.average();
  Tensors average = lists.result(lists.config().centered ? 4 : 2);  // addcmul or sqrt
  lists.in_place(1);                                                // add_
  if (lists.config().centered) lists.in_place(1);                   // sqrt_
  if (lists.config().momentum) lists.average();                     // mul_, add_ to the parameters
  lists.in_place(3);                                                // addcdiv_
  lists.drop(average);
}

void adagrad(Lists& lists) {
  lists.decay_gradients();
  lists.in_place(3);  // addcmul_
  Tensors root = lists.result(2);
  Tensors deviation = lists.result(2);
  lists.drop(root);
  Tensors scaled = lists.result_scalars(2);
  Tensors update = lists.result(3);
  lists.drop(scaled);
  lists.in_place(2);
  lists.drop(deviation);
  lists.drop(update);
}

void adadelta(Lists& lists) {
  lists.decay_gradients();
  lists.average_squares();
  Tensors deviation = lists.result(2);
  lists.in_place(1);  // sqrt_
  Tensors deltas = lists.result(2);
  lists.in_place(1);  // sqrt_
  lists.in_place(2);  // div_
  lists.in_place(2);  // mul_
  lists.in_place(2);  // add_
  lists.average_squares();
  lists.drop(deviation);
  lists.drop(deltas);
}

void nadam(Lists& lists) {
  lists.decay_gradients();
  lists.average();
  lists.average_squares();
  Tensors root = lists.result(2);
  lists.in_place_scalars(1);  // div_
  Tensors denominator = lists.result(2);
  lists.in_place_scalars(3);
  lists.in_place_scalars(3);
  lists.drop(root);
  lists.drop(denominator);
}

void radam(Lists& lists) {
  lists.decay_gradients();
  lists.average();
  lists.average_squares();
  Tensors root = lists.result(2);
  Tensors denominator = lists.result_scalars(2);
  lists.in_place_scalars(3);
  // [torch.ones_like(...)]: one fill each
  const Tensors ones = lists.builder().list(lists.parameters());
  lists.builder().count_kernels(ones.count);
  lists.bind(denominator, ones);
  lists.in_place_scalars(3);
  lists.drop(root);
  lists.drop(denominator);
}

/// The infinity norm goes tensor by tensor: max over [exp_inf, |grad| + eps] joined, with its indices.
void adamax(Lists& lists) {
  StepBuilder& builder = lists.builder();
  lists.decay_gradients();
  lists.average();
  lists.in_place(1);
  Tensors joined;
  for (const OptimizerParameter& parameter : lists.parameters()) {
    Tensors magnitude = builder.tensor(bytes_of(parameter));
    const Tensors both = builder.tensor(2 * bytes_of(parameter));
    builder.drop(magnitude);
    builder.bind(joined, both);
    Tensors indices = builder.tensor(parameter.elements * size_of(DType::int64));
    builder.drop(indices);
    builder.count_kernels(4);  // abs, add_, cat, max
  }
  lists.in_place_scalars(3);
  builder.drop(joined);
}

}  // namespace

void foreach_step_1_13(const OptimizerStep& step, StepBuilder& builder) {
  ForeachGroup all(step.parameters, step.pytorch);
  Lists lists(step, builder, all);
  switch (step.config.kind) {
    case OptimizerKind::none: return;
    case OptimizerKind::sgd: return sgd(lists);
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return adam(lists);
    case OptimizerKind::rmsprop: return rmsprop(lists);
    case OptimizerKind::adagrad: return adagrad(lists);
    case OptimizerKind::adadelta: return adadelta(lists);
    case OptimizerKind::nadam: return nadam(lists);
    case OptimizerKind::radam: return radam(lists);
    case OptimizerKind::adamax: return adamax(lists);
  }
}

}  // namespace gpuplan
