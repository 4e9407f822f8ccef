#include "estimator/time/slowest_gpu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace gpuplan {

double greatest_of(std::int64_t draws) {
  // Of 1, 2, 4, ... 1,048,576: the integral of x over the distribution of the greatest, d(Phi(x)^n), which
  // tests/unit/time/test_slowest_gpu.cpp takes again. In between it grows as good as evenly with the logarithm.
  constexpr std::array<double, 21> kGreatest = {0,      0.5642, 1.0294, 1.4236, 1.7660, 2.0697, 2.3437,
                                                2.5946, 2.8269, 3.0439, 3.2482, 3.4418, 3.6261, 3.8023,
                                                3.9714, 4.1341, 4.2911, 4.4430, 4.5903, 4.7332, 4.8723};
  const double doublings = std::log2(static_cast<double>(std::max<std::int64_t>(draws, 1)));
  const double within = std::min(doublings, static_cast<double>(kGreatest.size() - 1));
  const auto below = std::min(static_cast<std::size_t>(within), kGreatest.size() - 2);
  const double share = within - static_cast<double>(below);
  return kGreatest[below] + share * (kGreatest[below + 1] - kGreatest[below]);
}

double slowest_of(std::int64_t gpus, double spread) { return 1 + spread * greatest_of(gpus); }

}  // namespace gpuplan
