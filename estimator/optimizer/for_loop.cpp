// torch/optim/*.py, _single_tensor_*. A name assigned in one round of the loop holds its tensor until the next
// round assigns it again. PyTorch 2.1 to 2.15 and 1.13 differ in RAdam, Adamax and a few kernels.
#include <algorithm>
#include <utility>

#include "estimator/optimizer/implementations.h"

namespace gpuplan {
namespace {

constexpr PyTorchVersion kFirstModern = 201;

/// The current round's parameter, for the functions below.
class ParameterLoop {
 public:
  ParameterLoop(const OptimizerStep& step, StepBuilder& builder) : step_(step), builder_(builder) {}

  const OptimizerConfig& config() const { return step_.config; }
  bool first() const { return step_.first; }
  bool modern() const { return step_.pytorch >= kFirstModern; }
  std::span<const OptimizerParameter> parameters() const { return step_.parameters; }

  void enter(const OptimizerParameter& parameter) {
    bytes_ = bytes_of(parameter);
    partial_bytes_ = parameter.partial_elements * size_of(parameter.dtype);
  }
  /// An operator that reads the gradient so many times: DTensor sums a Partial one over the ranks for each.
  void read_gradient(int times) {
    if (partial_bytes_ == 0) return;
    Tensors first = builder_.tensor(bytes_);
    Tensors second;
    if (times > 1) second = builder_.tensor(bytes_);
    drop(second);
    drop(first);
  }
  /// In-place operators on tensors that outlive the round.
  void in_place(int kernels) { builder_.count_kernels(kernels); }
  /// An operator with a result of its own.
  Tensors result() {
    builder_.count_kernels(1);
    return builder_.tensor(bytes_);
  }
  Tensors result_of_twice_the_size() {
    builder_.count_kernels(1);
    return builder_.tensor(2 * bytes_);
  }
  void clone_as_state() { builder_.state(std::max(bytes_, partial_bytes_)); }  // a copy, not a kernel
  void bind(Tensors& name, Tensors value) { builder_.bind(name, value); }
  void drop(Tensors& name) { builder_.drop(name); }

  /// grad = grads[i], then grad = grad.add(param, alpha=weight_decay).
  void take_gradient(Tensors& grad) {
    drop(grad);
    if (config().weight_decay) bind(grad, result());
  }
  /// exp_avg.lerp_(grad, 1 - beta1), in 1.13 mul_ and add_.
  void average() { in_place(modern() ? 1 : 2); }
  /// first.op().op2(): the first result goes when the second exists.
  Tensors chained_results() {
    Tensors inner = result();
    const Tensors outer = result();
    drop(inner);
    return outer;
  }

 private:
  const OptimizerStep& step_;
  StepBuilder& builder_;
  std::int64_t bytes_ = 0;
  std::int64_t partial_bytes_ = 0;
};

void sgd(ParameterLoop& loop) {
  Tensors grad;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    loop.take_gradient(grad);
    if (loop.config().momentum) {
      if (loop.first()) {
        loop.clone_as_state();
      } else {
        loop.in_place(2);  // buf.mul_().add_()
      }
      if (loop.config().nesterov) {
        loop.bind(grad, loop.result());
      } else {
        loop.drop(grad);  // grad = buf
      }
    }
    loop.read_gradient(1);
    loop.in_place(1);  // param.add_
  }
  loop.drop(grad);
}

void adam(ParameterLoop& loop) {
  const bool decoupled = loop.config().kind == OptimizerKind::adamw;
  Tensors grad, denominator;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    if (decoupled) {
      loop.in_place(1);  // param.mul_
    } else {
      loop.take_gradient(grad);
    }
    loop.read_gradient(1);
    loop.average();
    loop.read_gradient(2);
    loop.in_place(2);                                // mul_, addcmul_
    if (loop.config().amsgrad) loop.in_place(1);     // maximum(out=)
    loop.bind(denominator, loop.chained_results());  // sqrt() / bias_correction2_sqrt
    loop.in_place(2);                                // add_, addcdiv_
  }
  loop.drop(grad);
  loop.drop(denominator);
}

void rmsprop(ParameterLoop& loop) {
  Tensors grad, average;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    loop.take_gradient(grad);
    loop.in_place(2);  // mul_, addcmul_
    if (loop.config().centered) {
      loop.average();
      loop.bind(average, loop.result());  // addcmul
      loop.in_place(1);                   // sqrt_
    } else {
      loop.bind(average, loop.result());  // sqrt
    }
    loop.in_place(loop.config().momentum ? 4 : 2);  // add_, then (mul_, addcdiv_, add_) or addcdiv_
  }
  loop.drop(grad);
  loop.drop(average);
}

void adagrad(ParameterLoop& loop) {
  Tensors grad, deviation;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    loop.take_gradient(grad);
    loop.in_place(1);  // addcmul_
    loop.bind(deviation, loop.result());
    loop.in_place(2);  // add_, addcdiv_
  }
  loop.drop(grad);
  loop.drop(deviation);
}

void adadelta(ParameterLoop& loop) {
  Tensors grad, deviation, delta;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    loop.take_gradient(grad);
    loop.in_place(2);  // mul_, addcmul_
    loop.bind(deviation, loop.result());
    loop.in_place(1);  // sqrt_
    loop.bind(delta, loop.result());
    loop.in_place(6);  // sqrt_, div_, mul_, mul_, addcmul_, add_
  }
  loop.drop(grad);
  loop.drop(deviation);
  loop.drop(delta);
}

void nadam(ParameterLoop& loop) {
  Tensors grad, denominator;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    loop.take_gradient(grad);
    loop.average();
    loop.in_place(2);                                // mul_, addcmul_
    loop.bind(denominator, loop.chained_results());  // div().sqrt()
    loop.in_place(3);                                // add_, addcdiv_, addcdiv_
  }
  loop.drop(grad);
  loop.drop(denominator);
}

/// scalar / exp_avg_sq.sqrt().add_(eps): the reciprocal, then a product.
Tensors adaptive_learning_rate(ParameterLoop& loop) {
  Tensors root = loop.result();
  loop.in_place(1);
  Tensors reciprocal = loop.result();
  const Tensors rate = loop.result();
  loop.drop(reciprocal);
  loop.drop(root);
  return rate;
}

/// param.add_(corrected * lr * adaptive_lr * rect). In 1.13 the adaptive rate is a name of the loop, computed
/// before; since 2.1 it is a function's result within the expression.
void radam_rectified_update(ParameterLoop& loop, Tensors& rate) {
  if (!loop.modern()) loop.bind(rate, adaptive_learning_rate(loop));
  Tensors product = loop.result();
  Tensors inner_rate = loop.modern() ? adaptive_learning_rate(loop) : Tensors{};
  loop.bind(product, loop.result());
  loop.drop(inner_rate);
  loop.bind(product, loop.result());
  loop.in_place(1);
  loop.drop(product);
}

void radam(ParameterLoop& loop) {
  Tensors grad, corrected, rate;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    loop.take_gradient(grad);
    loop.average();
    loop.in_place(2);                     // mul_, addcmul_
    loop.bind(corrected, loop.result());  // exp_avg / bias_correction1
    if (loop.first()) {                   // rho_t <= 5 in the first five steps
      Tensors product = loop.result();
      loop.in_place(1);
      loop.drop(product);
    } else {
      radam_rectified_update(loop, rate);
    }
  }
  loop.drop(grad);
  loop.drop(corrected);
  loop.drop(rate);
}

void adamax(ParameterLoop& loop) {
  Tensors grad, norm_buffer;
  for (const OptimizerParameter& parameter : loop.parameters()) {
    loop.enter(parameter);
    loop.take_gradient(grad);
    loop.average();
    loop.in_place(1);                   // exp_inf.mul_
    Tensors magnitude = loop.result();  // grad.abs()
    loop.in_place(1);                   // add_(eps)
    if (loop.modern()) {
      loop.in_place(1);  // maximum(out=)
      loop.drop(magnitude);
    } else {
      const Tensors joined = loop.result_of_twice_the_size();  // cat
      loop.drop(magnitude);
      loop.bind(norm_buffer, joined);
      loop.in_place(1);  // amax(out=)
    }
    loop.in_place(1);  // addcdiv_
  }
  loop.drop(grad);
  loop.drop(norm_buffer);
}

}  // namespace

void for_loop_step(const OptimizerStep& step, StepBuilder& builder) {
  ParameterLoop loop(step, builder);
  switch (step.config.kind) {
    case OptimizerKind::none: return;
    case OptimizerKind::sgd: return sgd(loop);
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return adam(loop);
    case OptimizerKind::rmsprop: return rmsprop(loop);
    case OptimizerKind::adagrad: return adagrad(loop);
    case OptimizerKind::adadelta: return adadelta(loop);
    case OptimizerKind::nadam: return nadam(loop);
    case OptimizerKind::radam: return radam(loop);
    case OptimizerKind::adamax: return adamax(loop);
  }
}

}  // namespace gpuplan
