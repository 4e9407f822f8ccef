#include "validate/cuda/optimizers.h"

#include <cmath>
#include <map>
#include <vector>

#include "validate/cuda/check.h"
#include "validate/cuda/kernels/optimizer.h"
#include "validate/cuda/kernels/pointwise.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/executor/hyperparameters.h"

namespace gpuplan::cuda {
namespace {

Update kind_of(const OptimizerConfig& config) {
  switch (config.kind) {
    case OptimizerKind::sgd: return Update::sgd;
    case OptimizerKind::adam: return Update::adam;
    case OptimizerKind::adamw: return Update::adamw;
    case OptimizerKind::rmsprop: return Update::rmsprop;
    case OptimizerKind::adagrad: return Update::adagrad;
    case OptimizerKind::adadelta: return Update::adadelta;
    case OptimizerKind::nadam: return Update::nadam;
    case OptimizerKind::radam: return Update::radam;
    case OptimizerKind::adamax: return Update::adamax;
    case OptimizerKind::none: break;
  }
  fail("no optimizer");
}

// Which of the formula's states the optimizer keeps, in the order that PyTorch allocates them.
std::vector<int> kept_states(const OptimizerConfig& config) {
  switch (config.kind) {
    case OptimizerKind::sgd: return config.momentum ? std::vector{0} : std::vector<int>{};
    case OptimizerKind::adagrad: return {0};
    case OptimizerKind::rmsprop: {
      std::vector<int> kept{0};
      if (config.momentum) kept.push_back(1);
      if (config.centered) kept.push_back(2);
      return kept;
    }
    default: return config.amsgrad ? std::vector{0, 1, 2} : std::vector{0, 1};
  }
}

// torch/optim/nadam.py: the momentum grows with the steps.
double nadam_momentum(const Hyperparameters& n, double step) {
  return n.beta1 * (1 - 0.5 * std::pow(0.96, step * n.momentum_decay));
}

void weigh_nadam(const Hyperparameters& n, std::int64_t steps, UpdateNumbers& u) {
  float rounded = 1;  // its mu_product is in fp32
  for (std::int64_t i = 1; i <= steps; ++i) rounded *= static_cast<float>(nadam_momentum(n, static_cast<double>(i)));
  const auto product = static_cast<double>(rounded);
  const auto step = static_cast<double>(steps);
  const double next = nadam_momentum(n, step + 1);
  u.learning_rate = n.rate * (1 - nadam_momentum(n, step)) / (1 - product);
  u.average_rate = n.rate * next / (1 - product * next);
}

// torch/optim/radam.py: adapted by the squares once their average is long enough.
void rectify_radam(const Hyperparameters& n, double step, UpdateNumbers& u) {
  const double limit = 2 / (1 - n.beta2) - 1;
  const double length = limit - 2 * step * (1 - u.correction2) / u.correction2;
  u.adapted = length > 5;
  u.learning_rate = n.rate / u.correction1;
  if (u.adapted)
    u.learning_rate *= std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
}

UpdateNumbers numbers_of(const OptimizerConfig& config, std::int64_t step) {
  const Hyperparameters n = hyperparameters(config);
  UpdateNumbers u;
  u.learning_rate = n.rate;
  u.momentum = n.momentum;
  u.weight_decay = n.weight_decay;
  u.beta1 = n.beta1;
  u.beta2 = n.beta2;
  u.alpha = config.kind == OptimizerKind::adadelta ? n.rho : n.alpha;
  u.eps = n.eps;
  u.correction1 = 1 - std::pow(n.beta1, static_cast<double>(step));
  u.correction2 = 1 - std::pow(n.beta2, static_cast<double>(step));
  u.nesterov = config.nesterov;
  u.centered = config.centered;
  u.amsgrad = config.amsgrad;
  if (config.kind == OptimizerKind::nadam) weigh_nadam(n, step, u);
  if (config.kind == OptimizerKind::radam) rectify_radam(n, static_cast<double>(step), u);
  if (config.kind == OptimizerKind::adamax) u.learning_rate = n.rate / u.correction1;
  return u;
}

void add(UpdateTensors& batch, const ParameterUpdate& p, std::span<const int> kept, std::size_t counters) {
  const auto at = static_cast<std::size_t>(batch.count++);
  batch.parameters[at] = p.parameter.data;
  batch.gradients[at] = p.gradient.data;
  batch.elements[at] = elements_of(p.parameter);
  for (auto& states : batch.states) states[at] = nullptr;
  for (std::size_t k = 0; k < kept.size(); ++k)
    batch.states[static_cast<std::size_t>(kept[k])][at] = p.states[counters + k].data;
}

void check_layout(const ParameterUpdate& p, std::size_t counters) {
  if (!is_dense(p.parameter) || !same_layout(p.parameter, p.gradient) || p.gradient.dtype != p.parameter.dtype)
    fail("a gradient has a different memory layout than its parameter");
  for (const KernelTensor& state : p.states.subspan(counters))
    if (state.dtype != p.parameter.dtype || elements_of(state) != elements_of(p.parameter))
      fail("an optimizer state does not match its parameter");
}

// Batches of tensors of one type.
template <class Run>
class Batches {
 public:
  explicit Batches(Run run) : run_(run) {}
  UpdateTensors& of(DType dtype) {
    UpdateTensors& batch = batches_[dtype];
    if (batch.count == kMostTensors) {
      run_(dtype, batch);
      batch.count = 0;
    }
    return batch;
  }
  void finish() {
    for (auto& [dtype, batch] : batches_)
      if (batch.count > 0) run_(dtype, batch);
  }

 private:
  Run run_;
  std::map<DType, UpdateTensors> batches_;
};

template <class Run>
void for_batches(std::span<const KernelTensor> gradients, Run run) {
  Batches batches(run);
  for (const KernelTensor& g : gradients) {
    if (elements_of(g) == 0) continue;
    if (!is_dense(g)) fail("a gradient with gaps");
    UpdateTensors& batch = batches.of(g.dtype);
    batch.gradients[batch.count] = g.data;
    batch.elements[batch.count++] = elements_of(g);
  }
  batches.finish();
}

}  // namespace

void update_parameters(const LaunchContext& launch, const OptimizerConfig& config, std::int64_t step,
                       std::span<const ParameterUpdate> parameters) {
  if (config.kind == OptimizerKind::none) return;
  const Update kind = kind_of(config);
  const UpdateNumbers numbers = numbers_of(config, step);
  const std::vector<int> kept = kept_states(config);
  Batches batches([&](DType dtype, const UpdateTensors& t) { update(launch, kind, dtype, t, numbers); });
  for (const ParameterUpdate& p : parameters) {
    if (p.states.size() < kept.size()) fail("an optimizer's states are missing");
    // What is more than the formula's states counts the steps, and comes first.
    const std::size_t counters = p.states.size() - kept.size();
    check_layout(p, counters);
    for (const KernelTensor& counter : p.states.first(counters)) fill(launch, counter, static_cast<double>(step));
    if (elements_of(p.parameter) > 0) add(batches.of(p.parameter.dtype), p, kept, counters);
  }
  batches.finish();
}

void clip_norm(const LaunchContext& launch, std::span<const KernelTensor> gradients) {
  std::int64_t blocks = 0;
  for_batches(gradients, [&](DType dtype, const UpdateTensors& t) {
    add_squares(launch, dtype, t, blocks);
    blocks += norm_blocks(t);
  });
  if (blocks == 0) return;
  find_factor(launch, blocks, kMaxNorm, kNormEps);
  for_batches(gradients, [&](DType dtype, const UpdateTensors& t) { apply_factor(launch, dtype, t); });
}

void unscale_gradients(const LaunchContext& launch, std::span<const KernelTensor> gradients,
                       const ScalerValues& values) {
  for_batches(gradients, [&](DType dtype, const UpdateTensors& t) {
    unscale(launch, dtype, t, static_cast<const float*>(values.scale), static_cast<float*>(values.found_inf));
  });
}

void update_scale(const LaunchContext& launch, const ScalerValues& values) {
  constexpr ScaleRule kRule{static_cast<float>(kScaleGrowth), static_cast<float>(kScaleBackoff), kScaleGrowthInterval};
  update_scale(launch, static_cast<float*>(values.scale), static_cast<int*>(values.growth_tracker),
               static_cast<const float*>(values.found_inf), kRule);
}

}  // namespace gpuplan::cuda
