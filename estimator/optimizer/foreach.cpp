// torch/optim/*.py, _multi_tensor_*, as they are since PyTorch 2.1. Parameters are handled dtype by dtype in one
// loop, whose names keep a group's lists until the next group assigns them again or the function returns.
#include "estimator/optimizer/foreach_lists.h"
#include "estimator/optimizer/implementations.h"

namespace gpuplan {
namespace {

/// device_grads = _foreach_add(device_grads, device_params, alpha=weight_decay)
void decay_gradients(ForeachLists& lists, const OptimizerConfig& config, Tensors& grads) {
  if (config.weight_decay) lists.bind(grads, lists.result(3));
}

void sgd(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    decay_gradients(lists, step.config, grads);
    if (step.config.momentum) {
      if (step.first) {
        lists.clone_as_states();
      } else {
        lists.in_place(1);  // mul_
        lists.in_place(2);  // add_
      }
      if (step.config.nesterov) {
        lists.in_place(2);  // on the gradients themselves without weight decay
      } else {
        lists.drop(grads);  // device_grads = bufs
      }
    }
    lists.read_gradients(1);
    lists.in_place(2);
  }
  lists.drop(grads);
}

void adam(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads, root;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    if (step.config.kind == OptimizerKind::adamw) {
      lists.in_place(1);  // decoupled: mul_ on the parameters
    } else {
      decay_gradients(lists, step.config, grads);
    }
    lists.read_gradients(1);
    lists.in_place(2);  // lerp_
    lists.in_place(1);  // mul_
    lists.read_gradients(2);
    lists.in_place(3);  // addcmul_
    lists.drop(grads);  // del device_grads
    if (step.config.amsgrad) lists.in_place(2);
    lists.bind(root, lists.result(2));
    lists.in_place_scalars(1);  // div_
    lists.in_place(1);          // add_
    lists.in_place_scalars(3);  // addcdiv_
  }
  lists.drop(grads);
  lists.drop(root);
}

void rmsprop(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads, average;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    decay_gradients(lists, step.config, grads);
    lists.in_place(1);  // mul_
    lists.in_place(3);  // addcmul_
    if (step.config.centered) {
      lists.in_place(2);                     // lerp_
      lists.bind(average, lists.result(4));  // addcmul
      lists.in_place(1);                     // sqrt_
    } else {
      lists.bind(average, lists.result(2));  // sqrt
    }
    lists.in_place(1);  // add_
    if (step.config.momentum) {
      lists.in_place(1);  // mul_
      lists.in_place(3);  // addcdiv_
      lists.in_place(2);  // add_
    } else {
      lists.in_place(3);  // addcdiv_
    }
  }
  lists.drop(grads);
  lists.drop(average);
}

void adagrad(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads, deviation, numerator;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    decay_gradients(lists, step.config, grads);
    lists.in_place(3);  // addcmul_
    lists.bind(deviation, lists.result(2));
    lists.in_place(1);  // add_
    if (step.config.weight_decay) {
      lists.in_place_scalars(1);
      lists.bind(numerator, grads);  // numerator = device_grads: the list outlives the other name
      grads = {};
    } else {
      lists.bind(numerator, lists.result_scalars(2));
    }
    lists.in_place(3);  // addcdiv_
  }
  lists.drop(deviation);
  lists.drop(numerator);
}

void adadelta(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads, deviation, deltas;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    decay_gradients(lists, step.config, grads);
    lists.in_place(1);  // mul_
    lists.in_place(3);  // addcmul_
    lists.bind(deviation, lists.result(2));
    lists.in_place(1);  // sqrt_
    lists.bind(deltas, lists.result(2));
    lists.in_place(1);  // sqrt_
    lists.in_place(2);  // div_
    lists.in_place(2);  // mul_
    lists.in_place(1);  // mul_
    lists.in_place(3);  // addcmul_
    lists.in_place(2);  // add_
  }
  lists.drop(grads);
  lists.drop(deviation);
  lists.drop(deltas);
}

void nadam(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads, root;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    decay_gradients(lists, step.config, grads);
    lists.in_place(2);  // lerp_
    lists.in_place(1);  // mul_
    lists.in_place(3);  // addcmul_
    lists.bind(root, lists.result(2));
    lists.in_place_scalars(1);  // div_
    lists.in_place(1);          // add_
    lists.in_place_scalars(3);  // addcdiv_ of the gradients
    lists.in_place_scalars(3);  // addcdiv_ of the averages
  }
  lists.drop(grads);
  lists.drop(root);
}

void radam(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads, buffer;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    decay_gradients(lists, step.config, grads);
    lists.in_place(2);  // lerp_
    lists.in_place(1);  // mul_
    lists.in_place(3);  // addcmul_
    lists.drop(grads);  // del grouped_grads
    lists.bind(buffer, lists.result(2));
    lists.in_place(1);          // add_
    lists.in_place_scalars(1);  // div_
    lists.in_place(1);          // reciprocal_
    lists.in_place_scalars(1);  // add_
    lists.in_place(3);          // addcmul_
  }
  lists.drop(grads);
  lists.drop(buffer);
}

void adamax(ForeachLists& lists, ForeachGroups& groups, const OptimizerStep& step) {
  Tensors grads;
  for (ForeachGroup& group : groups) {
    lists.enter(group, grads);
    decay_gradients(lists, step.config, grads);
    lists.in_place(2);  // lerp_
    lists.in_place(1);  // mul_
    if (step.config.weight_decay) {
      lists.in_place(1);  // abs_
    } else {
      lists.bind(grads, lists.result(2));  // abs
    }
    lists.in_place(1);          // add_
    lists.in_place(2);          // maximum_
    lists.in_place_scalars(3);  // addcdiv_
  }
  lists.drop(grads);
}

}  // namespace

void foreach_step(const OptimizerStep& step, StepBuilder& builder) {
  if (step.parameters.empty()) return;
  ForeachGroups groups(step.parameters, step.pytorch);
  ForeachLists lists(builder, *groups.begin());
  switch (step.config.kind) {
    case OptimizerKind::none: return;
    case OptimizerKind::sgd: return sgd(lists, groups, step);
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return adam(lists, groups, step);
    case OptimizerKind::rmsprop: return rmsprop(lists, groups, step);
    case OptimizerKind::adagrad: return adagrad(lists, groups, step);
    case OptimizerKind::adadelta: return adadelta(lists, groups, step);
    case OptimizerKind::nadam: return nadam(lists, groups, step);
    case OptimizerKind::radam: return radam(lists, groups, step);
    case OptimizerKind::adamax: return adamax(lists, groups, step);
  }
}

}  // namespace gpuplan
