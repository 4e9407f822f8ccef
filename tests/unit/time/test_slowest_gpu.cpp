// The slowest of several GPUs, beside what was published of hundreds of each kind.
#include "estimator/time/slowest_gpu.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "estimator/time/time_model.h"

namespace gpuplan {
namespace {

// E[max] = integral over x > 0 of 1 - Phi(x)^n - Phi(-x)^n.
double integrated(double draws) {
  const auto phi = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  constexpr double kStep = 0.001;
  double sum = 0;
  for (double x = kStep / 2; x < 9; x += kStep) sum += kStep * (1 - std::pow(phi(x), draws) - std::pow(phi(-x), draws));
  return sum;
}

TEST_CASE("the greatest of draws is that of a normal distribution") {
  CHECK_EQ(greatest_of(1), 0);
  for (int doublings = 0; doublings <= 20; ++doublings) {
    const std::int64_t draws = std::int64_t{1} << doublings;
    CHECK(greatest_of(draws) == doctest::Approx(integrated(static_cast<double>(draws))).epsilon(1e-4));
  }
  for (const std::int64_t draws : {3, 6, 12, 24, 48, 96, 384, 3072})
    CHECK(greatest_of(draws) == doctest::Approx(integrated(static_cast<double>(draws))).epsilon(0.02));
  CHECK_GE(greatest_of(std::int64_t{1} << 40), greatest_of(1 << 20));
  CHECK_EQ(greatest_of(0), 0);
}

struct Spread {
  double deviation = 0, slowest_of_eight = 0, without_outliers = 0;
};

std::map<std::string, Spread> published() {
  std::ifstream in(GPUPLAN_SOURCE_DIR "/tests/times/gpu_spread.csv");
  std::map<std::string, Spread> spreads;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with('#') || line.starts_with("gpu,")) continue;
    std::istringstream fields(line);
    std::string gpu, work, field;
    std::getline(fields, gpu, ',');
    std::getline(fields, work, ',');
    std::array<double, 5> numbers{};
    for (double& n : numbers) std::getline(fields, field, ','), n = std::stod(field);
    constexpr double kQuartiles = 1.349;  // from one to the other, in standard deviations
    spreads[gpu + " " + work] = {(numbers[2] - numbers[1]) / kQuartiles, numbers[3], numbers[4]};
  }
  return spreads;
}

TEST_CASE("the spread of clocks is what was published of V100s, and the slowest of eight follows from it") {
  const std::map<std::string, Spread> spreads = published();
  REQUIRE_EQ(spreads.size(), 8);
  const double spread = TimeModel{}.clock_spread;
  const Spread& products = spreads.at("v100 sgemm");
  CHECK(products.deviation == doctest::Approx(spread).epsilon(0.02));
  CHECK(slowest_of(8, spread) >= products.without_outliers);
  CHECK(slowest_of(8, spread) <= products.slowest_of_eight);
  // Of whole steps the clock limits a part; one spread for all kinds of GPUs is right to so much.
  CHECK(std::abs(slowest_of(8, spread) - spreads.at("v100 resnet50").without_outliers) < 0.006);
  CHECK(std::abs(slowest_of(8, spread) - spreads.at("a100-40gb resnet50").without_outliers) < 0.006);
  for (const auto* of : {"v100 pagerank", "quadro-rtx-5000 pagerank"}) CHECK_LT(spreads.at(of).deviation, 0.0015);
}

}  // namespace
}  // namespace gpuplan
