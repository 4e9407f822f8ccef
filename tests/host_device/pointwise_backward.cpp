// The derivatives of activations, and dropout's.
#include <array>
#include <cmath>
#include <numbers>

#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

double gelu_slope(double x, bool tanh) {
  if (!tanh) {
    const double below = (1 + std::erf(x / std::numbers::sqrt2)) / 2;
    return below + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  }
  const double c = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

void gelu(const Kernel& k) {
  each_pair(k, [t = k.number(Attribute::approximate) != 0](double g, double x) { return g * gelu_slope(x, t); });
}
void silu(const Kernel& k) {
  each_pair(k, [](double g, double x) {
    const double s = 1 / (1 + std::exp(-x));
    return g * s * (1 + x * (1 - s));
  });
}
void threshold(const Kernel& k) {
  each_pair(k, [](double result, double g) { return result <= 0 ? 0 : g; });
}
void hardtanh(const Kernel& k) {
  each_pair(k, [low = k.number(Attribute::min_val), high = k.number(Attribute::max_val)](double g, double x) {
    return x <= low || x >= high ? 0 : g;
  });
}
void tanh(const Kernel& k) {
  each_pair(k, [](double g, double y) { return g * (1 - y * y); });
}
void sigmoid(const Kernel& k) {
  each_pair(k, [](double g, double y) { return g * y * (1 - y); });
}
// Reads what was saved first; the sign of the input is that of the result.
void leaky_relu(const Kernel& k) {
  each_pair(k, [slope = k.number(Attribute::negative_slope)](double x, double g) { return x > 0 ? g : g * slope; });
}
// {alpha, whether it reads the result, not the input}
void elu(const Kernel& k) {
  each_pair(k, [alpha = k.number(Attribute::alpha), of_result = k.number(Attribute::is_result) != 0](
                   double g, double x) { return x > 0 ? g : g * (of_result ? x + alpha : alpha * std::exp(x)); });
}
void hardsigmoid(const Kernel& k) {
  each_pair(k, [](double g, double x) { return x > -3 && x < 3 ? g / 6 : 0; });
}
void hardswish(const Kernel& k) {
  each_pair(k, [](double g, double x) { return x < -3 ? 0 : x <= 3 ? g * (x / 3 + 0.5) : g; });
}
void dropout(const Kernel& k) {
  each_pair(k, [p = k.number(Attribute::p)](double g, double mask) { return mask != 0 ? g / (1 - p) : g * 0; });
}

constexpr std::array kOperations{
    Operation{Operator::gelu_backward, gelu, 2},
    Operation{Operator::silu_backward, silu, 2},
    Operation{Operator::threshold_backward, threshold, 2},
    Operation{Operator::hardtanh_backward, hardtanh, 2, 2},
    Operation{Operator::tanh_backward, tanh, 2},
    Operation{Operator::sigmoid_backward, sigmoid, 2},
    Operation{Operator::leaky_relu_backward, leaky_relu, 2, 1},
    Operation{Operator::elu_backward, elu, 2, 2},
    Operation{Operator::hardsigmoid_backward, hardsigmoid, 2},
    Operation{Operator::hardswish_backward, hardswish, 2},
    Operation{Operator::native_dropout_backward, dropout, 2, 1},
};

}  // namespace

std::span<const Operation> pointwise_backward_operations() { return kOperations; }

}  // namespace gpuplan::host
