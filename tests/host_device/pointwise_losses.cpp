// Losses of each element against a target, their mean or sum: {whether it is the mean, where a square becomes a line}.
#include <array>
#include <cmath>

#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

// y = the sum of f(x, target), or their mean. mse_loss's and smooth_l1_loss's results are of the input's size, of which
// the first element is returned.
template <class F>
void loss(const Kernel& k, F&& f) {
  const Values x = read(k.reads[0]), target = read(k.reads[1]);
  double sum = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) sum += f(x[i], target[i]);
  store(k.writes[0], 0, k.number(Attribute::reduction) != 0 ? sum / static_cast<double>(x.count()) : sum);
}

// dx = grad f'(x, target), over the count where the loss is a mean.
template <class F>
void slope(const Kernel& k, F&& f) {
  const Values x = read(k.reads[1]), target = read(k.reads[2]);
  const double grad = load(k.reads[0], 0) / (k.number(Attribute::reduction) != 0 ? static_cast<double>(x.count()) : 1);
  Values dx = zeros(x.sizes);
  for (std::int64_t i = 0; i < x.count(); ++i) dx[i] = grad * f(x[i], target[i]);
  write(k.writes[0], dx);
}

void mse(const Kernel& k) {
  loss(k, [](double x, double t) { return (x - t) * (x - t); });
}
void mse_backward(const Kernel& k) {
  slope(k, [](double x, double t) { return 2 * (x - t); });
}

void smooth_l1(const Kernel& k) {
  loss(k, [beta = k.number(Attribute::bend)](double x, double t) {
    const double z = std::abs(x - t);
    return z < beta ? z * z / 2 / beta : z - beta / 2;
  });
}
void smooth_l1_backward(const Kernel& k) {
  slope(k, [beta = k.number(Attribute::bend)](double x, double t) {
    const double z = x - t;
    return z <= -beta ? -1 : z >= beta ? 1 : z / beta;
  });
}

void huber(const Kernel& k) {
  loss(k, [delta = k.number(Attribute::bend)](double x, double t) {
    const double z = std::abs(x - t);
    return z < delta ? z * z / 2 : delta * (z - delta / 2);
  });
}
void huber_backward(const Kernel& k) {
  slope(k, [delta = k.number(Attribute::bend)](double x, double t) {
    const double z = x - t;
    return z <= -delta ? -delta : z >= delta ? delta : z;
  });
}

// (1 - t) x - log sigmoid(x)
void cross_entropy(const Kernel& k) {
  loss(k, [](double x, double t) { return (1 - t) * x + std::log1p(std::exp(-std::abs(x))) + std::fmax(-x, 0); });
}
void cross_entropy_backward(const Kernel& k) {
  slope(k, [](double x, double t) { return 1 / (1 + std::exp(-x)) - t; });
}

constexpr std::array kOperations{
    Operation{Operator::mse_loss, mse, 2, 2},
    Operation{Operator::mse_loss_backward, mse_backward, 3, 2},
    Operation{Operator::smooth_l1_loss, smooth_l1, 2, 2},
    Operation{Operator::smooth_l1_loss_backward, smooth_l1_backward, 3, 2},
    Operation{Operator::huber_loss, huber, 2, 2},
    Operation{Operator::huber_loss_backward, huber_backward, 3, 2},
    Operation{Operator::binary_cross_entropy_with_logits, cross_entropy, 2, 2},
    Operation{Operator::binary_cross_entropy_with_logits_backward, cross_entropy_backward, 3, 2}};

}  // namespace

std::span<const Operation> pointwise_loss_operations() { return kOperations; }

}  // namespace gpuplan::host
