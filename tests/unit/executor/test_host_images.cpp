// Resampling, averages and group normalisation of images on the host device: against PyTorch's values and central
// differences.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/host_device/finite_differences.h"

namespace gpuplan::host {
namespace {

using Row = std::vector<double>;

TEST_CASE("averages of windows count their padding, leave it out, or divide by a number") {
  // F.avg_pool2d(torch.arange(9.).view(1, 1, 3, 3), 2, 2, 1, ...): corners of one element, a whole window of four.
  Row values;
  for (int i = 0; i < 9; ++i) values.push_back(i);
  const Block x({1, 1, 3, 3}, DType::fp64, values);
  Block y({1, 1, 2, 2});
  run("avg_pool2d", {{x}, {y}, {2, 2, 2, 2, 1, 1, 1, 0}});
  CHECK(y.values() == Row{0, 0.75, 2.25, 6});
  run("avg_pool2d", {{x}, {y}, {2, 2, 2, 2, 1, 1, 0, 0}});
  CHECK(y.values() == Row{0, 1.5, 4.5, 6});
  run("avg_pool2d", {{x}, {y}, {2, 2, 2, 2, 1, 1, 1, 8}});
  CHECK(y.values() == Row{0, 0.375, 1.125, 3});
}

TEST_CASE("... and one that hangs over the edge (ceil_mode) has only the padding that is there") {
  // F.avg_pool2d(torch.arange(1., 4.).view(1, 1, 1, 3), (1, 2), ceil_mode=True)
  const Block x({1, 1, 1, 3}, DType::fp64, {1, 2, 3});
  Block y({1, 1, 1, 2});
  run("avg_pool2d", {{x}, {y}, {1, 2, 1, 2, 0, 0, 1, 0}});
  CHECK(y.values() == Row{1.5, 3});
}

TEST_CASE("nearest and bilinear resampling") {
  // F.interpolate(torch.tensor([[[[1., 2.], [3., 4.]]]]), size=(2, 4), mode=...)
  const Block x({1, 1, 2, 2}, DType::fp64, {1, 2, 3, 4});
  Block y({1, 1, 2, 4});
  run("upsample_nearest2d", {{x}, {y}, {1, 0.5, 0}});
  CHECK(y.values() == Row{1, 1, 2, 2, 3, 3, 4, 4});
  run("upsample_bilinear2d", {{x}, {y}, {1, 0.5, 0}});
  CHECK(y.values() == Row{1, 1.25, 1.75, 2, 3, 3.25, 3.75, 4});
  run("upsample_bilinear2d", {{x}, {y}, {1, 1.0 / 3, 1}});  // align_corners=True
  for (std::size_t i = 0; i < 4; ++i) CHECK(y.values()[i] == doctest::Approx(1 + static_cast<double>(i) / 3));
}

TEST_CASE("gradients of images at another size") {
  struct Case {
    const char* name;
    std::vector<double> numbers;
    std::int64_t h, w;
  };
  for (const Case& c : {Case{"avg_pool2d", {3, 2, 2, 1, 1, 0, 1, 0}, 3, 4},
                        {"avg_pool2d", {3, 2, 2, 1, 1, 1, 0, 0}, 3, 6},
                        {"avg_pool2d", {2, 2, 2, 2, 0, 0, 1, 3}, 2, 2},
                        {"upsample_nearest2d", {0.5, 5.0 / 7, 0}, 10, 7},
                        {"upsample_nearest2d", {5.0 / 3, 2.5, 0}, 3, 2},
                        {"upsample_bilinear2d", {0.5, 5.0 / 7, 0}, 10, 7},
                        {"upsample_bilinear2d", {4.0 / 9, 0, 1}, 10, 1},
                        {"upsample_bilinear2d", {5.0 / 3, 2.5, 0}, 3, 2}}) {
    CAPTURE(c.name);
    CAPTURE(c.h);
    Block x = random_block({2, 2, 5, 5}, 1), dx = x, y({2, 2, c.h, c.w}), w = random_block({2, 2, c.h, c.w}, 2);
    const auto forward = [&] { run(c.name, {{x}, {y}, c.numbers}); };
    forward();
    run(std::string(c.name) + "_backward", {{w, x}, {dx}, c.numbers});
    CHECK(gradient_error(forward, y, w, x, dx) <= kGradientError);
  }
}

TEST_CASE("group normalisation") {
  GroupNorm work{.n = 2, .channels = 6, .area = 4, .groups = 3, .dtype = DType::fp64};
  Block x = random_block({2, 6, 2, 2}, 1), weight = random_block({6}, 2), bias = random_block({6}, 3);
  Block y = x, mean({2, 3}), rstd({2, 3}), w = random_block({2, 6, 2, 2}, 4), dx = x, dweight = weight, dbias = bias;
  const auto forward = [&] { run("native_group_norm", {{x}, {y, mean, rstd}, {1e-5}, work, {weight, bias}}); };
  forward();
  work.backward = true;
  run("native_group_norm_backward", {{w, x, mean, rstd, weight}, {dx, dweight, dbias}, {1, 1, 1}, work});
  CHECK(gradient_error(forward, y, w, x, dx) <= kGradientError);
  CHECK(gradient_error(forward, y, w, weight, dweight) <= kGradientError);
  CHECK(gradient_error(forward, y, w, bias, dbias) <= kGradientError);
  Block only = bias;
  run("native_group_norm_backward", {{w, x, mean, rstd, weight}, {only}, {0, 0, 1}, work});
  CHECK(only.values() == dbias.values());
}

TEST_CASE("the gradient of batch normalisation that instance_norm calls") {
  BatchNorm work{.elements = 24, .channels = 6, .rows = 4, .accumulate = DType::fp64};
  Block x = random_block({1, 6, 2, 2}, 1), weight = random_block({6}, 2), bias = random_block({6}, 3);
  Block y = x, mean({6}), invstd({6}), w = random_block({1, 6, 2, 2}, 4), dx = x, dweight = weight, dbias = bias;
  const double no_momentum = std::numeric_limits<double>::quiet_NaN();
  const auto forward = [&] { run("batch_norm", {{x}, {y, mean, invstd}, {no_momentum, 1e-5}, work, {weight, bias}}); };
  forward();
  work.backward = true;
  run("batch_norm_backward", {{w, x, mean, invstd, weight}, {dx, dweight, dbias}, {1e-5, 1, 1, 1}, work});
  CHECK(gradient_error(forward, y, w, x, dx) <= kGradientError);
  CHECK(gradient_error(forward, y, w, weight, dweight) <= kGradientError);
  CHECK(gradient_error(forward, y, w, bias, dbias) <= kGradientError);
}

}  // namespace
}  // namespace gpuplan::host
