// The gradient that a backward operation makes against central differences of its forward operation, in fp64.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/host_device/blocks.h"

namespace gpuplan::host {

/// The largest error of dx, what backward makes of w, against d sum(y w) / dx: relative where the slope is above 1.
/// `forward` writes y of x.
template <class Forward>
double gradient_error(Forward&& forward, const Block& y, const Block& w, Block& x, const Block& dx) {
  constexpr double kStep = 1e-5;
  const auto weighted = [&] {
    forward();
    double sum = 0;
    for (std::int64_t i = 0; i < w.count(); ++i) sum += y.get(i) * w.get(i);
    return sum;
  };
  double worst = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const double was = x.get(i);
    x.set(i, was + kStep);
    const double above = weighted();
    x.set(i, was - kStep);
    const double below = weighted();
    x.set(i, was);
    const double slope = (above - below) / (2 * kStep);
    const double error = std::abs(dx.get(i) - slope) / std::max(1.0, std::abs(slope));
    worst = error > worst || std::isnan(error) ? error : worst;
    if (std::isnan(worst)) break;
  }
  forward();
  return worst;
}

/// What gradient_error() may be: the differences' own error, of the order of the step's square.
constexpr double kGradientError = 1e-6;

}  // namespace gpuplan::host
