#include "tests/host_device/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "estimator/base/error.h"
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

void adadelta(Update& u) {
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    const double g = u.g[i] + u.h.weight_decay * u.p[i];
    double &square = u.state(0)[i], &delta_square = u.state(1)[i];
    square = u.h.rho * square + (1 - u.h.rho) * g * g;
    const double delta = std::sqrt(delta_square + u.h.eps) / std::sqrt(square + u.h.eps) * g;
    delta_square = u.h.rho * delta_square + (1 - u.h.rho) * delta * delta;
    u.p[i] -= u.h.rate * delta;
  }
}

void nadam(Update& u) {
  const auto mu = [&](double step) { return u.h.beta1 * (1 - 0.5 * std::pow(0.96, step * u.h.momentum_decay)); };
  float rounded = 1;  // PyTorch keeps this product in fp32
  for (double step = 1; step <= u.step; ++step) rounded *= static_cast<float>(mu(step));
  const auto product = static_cast<double>(rounded);
  const double now = mu(u.step), next = mu(u.step + 1), unbias2 = 1 - std::pow(u.h.beta2, u.step);
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    const double g = u.g[i] + u.h.weight_decay * u.p[i];
    double &m = u.state(0)[i], &v = u.state(1)[i];
    m = u.h.beta1 * m + (1 - u.h.beta1) * g;
    v = u.h.beta2 * v + (1 - u.h.beta2) * g * g;
    const double average = next * m / (1 - product * next) + (1 - now) * g / (1 - product);
    u.p[i] -= u.h.rate * average / (std::sqrt(v / unbias2) + u.h.eps);
  }
}

void radam(Update& u) {
  const double beta2_power = std::pow(u.h.beta2, u.step);
  const double limit = 2 / (1 - u.h.beta2) - 1, length = limit - 2 * u.step * beta2_power / (1 - beta2_power);
  const double r = std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    const double g = u.g[i] + u.h.weight_decay * u.p[i];
    double &m = u.state(0)[i], &v = u.state(1)[i];
    m = u.h.beta1 * m + (1 - u.h.beta1) * g;
    v = u.h.beta2 * v + (1 - u.h.beta2) * g * g;
    const double average = m / (1 - std::pow(u.h.beta1, u.step));
    const double adapted = length > 5 ? r * std::sqrt(1 - beta2_power) / (std::sqrt(v) + u.h.eps) : 1;
    u.p[i] -= u.h.rate * average * adapted;
  }
}

void adamax(Update& u) {
  for (std::int64_t i = 0; i < u.p.count(); ++i) {
    const double g = u.g[i] + u.h.weight_decay * u.p[i];
    double &m = u.state(0)[i], &most = u.state(1)[i];
    m = u.h.beta1 * m + (1 - u.h.beta1) * g;
    most = std::max(u.h.beta2 * most, std::abs(g) + u.h.eps);
    u.p[i] -= u.h.rate * m / ((1 - std::pow(u.h.beta1, u.step)) * most);
  }
}

}  // namespace

void update(const OptimizerConfig& config, std::int64_t step, const ParameterUpdate& parameter) {
  Update u{read(parameter.parameter), read(parameter.gradient), {}, static_cast<double>(step), hyperparameters(config)};
  std::vector<KernelTensor> states(parameter.states.begin(), parameter.states.end());
  if (config.impl == OptimizerImpl::fused && config.kind != OptimizerKind::sgd && !states.empty()) {
    write(states.front(), {{}, {u.step}});  // fused ones count their steps on the device
    states.erase(states.begin());
  }
  for (const KernelTensor& s : states) u.states.push_back(read(s));
  switch (config.kind) {
    case OptimizerKind::none: return;
    case OptimizerKind::sgd: sgd(u, config); break;
    case OptimizerKind::adam:
    case OptimizerKind::adamw: adam(u, config); break;
    case OptimizerKind::rmsprop: rmsprop(u, config); break;
    case OptimizerKind::adagrad: adagrad(u); break;
    case OptimizerKind::adadelta: adadelta(u); break;
    case OptimizerKind::nadam: nadam(u); break;
    case OptimizerKind::radam: radam(u); break;
    case OptimizerKind::adamax: adamax(u); break;
  }
  write(parameter.parameter, u.p);
  for (std::size_t i = 0; i < states.size(); ++i) write(states[i], u.states[i]);
}

void unscale(std::span<const KernelTensor> gradients, const ScalerValues& values) {
  const auto inverse = static_cast<float>(1.0 / static_cast<double>(*static_cast<float*>(values.scale)));
  for (const KernelTensor& g : gradients) {
    Values v = read(g);
    for (double& x : v.at) {
      if (!std::isfinite(x)) *static_cast<float*>(values.found_inf) = 1;
      x *= static_cast<double>(inverse);
    }
    write(g, v);
  }
}

void update_scale(const ScalerValues& values) {
  auto& scale = *static_cast<float*>(values.scale);
  auto& tracker = *static_cast<std::int32_t*>(values.growth_tracker);
  if (*static_cast<float*>(values.found_inf) != 0) {
    scale *= static_cast<float>(kScaleBackoff);
    tracker = 0;
  } else if (++tracker == kScaleGrowthInterval) {
    tracker = 0;
    const float grown = scale * static_cast<float>(kScaleGrowth);
    if (std::isfinite(grown)) scale = grown;
  }
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
