#include "tests/host_device/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "estimator/error.h"
#include "tests/host_device/elements.h"
#include "validate/executor/hyperparameters.h"

namespace gpuplan::host {
namespace {

// A parameter, its gradient and its states, each as they lie.
struct Update {
  Values p, g;
  std::vector<Values> states;
  double step = 1;  // how many, this one included
  Hyperparameters h;

  Values& state(std::size_t i) {
    if (i >= states.size()) throw Error("an optimizer without its states");
    return states[i];
  }
};

void sgd(Update& u, const OptimizerConfig& config) {
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    double d = u.g[i] + u.h.weight_decay * u.p[i];
    if (config.momentum) {
      double& buffer = u.state(0)[i];
      buffer = u.h.momentum * buffer + d;  // the first step's is the gradient: buffers begin with zeros
      d = config.nesterov ? d + u.h.momentum * buffer : buffer;
    }
    u.p[i] -= u.h.rate * d;
  }
}

void adam(Update& u, const OptimizerConfig& config) {
  const bool decoupled = config.kind == OptimizerKind::adamw;
  const double unbias1 = 1 - std::pow(u.h.beta1, u.step), unbias2 = 1 - std::pow(u.h.beta2, u.step);
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    if (decoupled) u.p[i] *= 1 - u.h.rate * u.h.weight_decay;
    const double g = u.g[i] + (decoupled ? 0 : u.h.weight_decay * u.p[i]);
    double &m = u.state(0)[i], &v = u.state(1)[i];
    m += (1 - u.h.beta1) * (g - m);
    v = u.h.beta2 * v + (1 - u.h.beta2) * g * g;
    double most = v;
    if (config.amsgrad) most = u.state(2)[i] = std::max(u.state(2)[i], v);
    u.p[i] -= u.h.rate / unbias1 * m / (std::sqrt(most) / std::sqrt(unbias2) + u.h.eps);
  }
}

void rmsprop(Update& u, const OptimizerConfig& config) {
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    const double g = u.g[i] + u.h.weight_decay * u.p[i];
    double& square = u.state(0)[i];
    square = u.h.alpha * square + (1 - u.h.alpha) * g * g;
    double variance = square;
    if (config.centered) {
      double& mean = u.state(config.momentum ? 2 : 1)[i];
      mean += (1 - u.h.alpha) * (g - mean);
      variance -= mean * mean;
    }
    double d = g / (std::sqrt(variance) + u.h.eps);
    if (config.momentum) {
      double& buffer = u.state(1)[i];
      d = buffer = u.h.momentum * buffer + d;
    }
    u.p[i] -= u.h.rate * d;
  }
}

void adagrad(Update& u) {
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    const double g = u.g[i] + u.h.weight_decay * u.p[i];
    double& sum = u.state(0)[i];
    sum += g * g;
    u.p[i] -= u.h.rate * g / (std::sqrt(sum) + u.h.eps);
  }
}

}  // namespace

void update(const OptimizerConfig& config, std::int64_t step, const ParameterUpdate& parameter) {
  Update u{read(parameter.parameter), read(parameter.gradient), {}, static_cast<double>(step), hyperparameters(config)};
  std::vector<KernelTensor> states;  // without the count of steps that fused ones keep
  for (const KernelTensor& s : parameter.states)
    if (elements(s) == elements(parameter.parameter)) states.push_back(s);
  for (const KernelTensor& s : states) u.states.push_back(read(s));
  switch (config.kind) {
    case OptimizerKind::none: return;
    case OptimizerKind::sgd: sgd(u, config); break;
    case OptimizerKind::adam:
    case OptimizerKind::adamw: adam(u, config); break;
    case OptimizerKind::rmsprop: rmsprop(u, config); break;
    case OptimizerKind::adagrad: adagrad(u); break;
    default: throw Error("the host device has no such optimizer");
  }
  write(parameter.parameter, u.p);
  for (std::size_t i = 0; i < states.size(); ++i) write(states[i], u.states[i]);
}

void clip(std::span<const KernelTensor> gradients) {
  double sum = 0;
  for (const KernelTensor& g : gradients)
    for (const double x : read(g).at) sum += x * x;
  const double scale = std::min(kMaxNorm / (std::sqrt(sum) + kNormEps), 1.0);
  for (const KernelTensor& g : gradients) {
    Values v = read(g);
    for (double& x : v.at) x *= scale;
    write(g, v);
  }
}

}  // namespace gpuplan::host
