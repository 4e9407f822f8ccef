#include "estimator/time/product_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpuplan {
namespace {

constexpr double kLeastSplit = 64;                                // of the contracted dimension, that a block is given
constexpr std::array<int, 7> kSplits = {1, 2, 4, 8, 16, 32, 64};  // blocks that share it

struct Waves {
  const ProductShape& shape;
  const ProductUnits& units;
  double fill = 0;

  // Partial results of a split are written and read in fp32.
  double seconds(double rows, double columns, int split, double share) const {
    const double k = std::ceil(shape.k / split);
    const double blocks = std::ceil(shape.m / rows) * std::ceil(shape.n / columns) * shape.batch * split;
    const double waves = std::ceil(blocks / units.multiprocessors);
    const double compute = waves * 2 * rows * columns * (k + fill) * units.multiprocessors / (units.flops * share);
    return split == 1 ? compute : compute + 8.0 * split * shape.m * shape.n * shape.batch / units.bytes;
  }
};

}  // namespace

ProductShape implicit_product(const Convolution& c) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const double groups = real(c.groups), taps = real(c.r * c.s);
  switch (c.pass) {
    case ConvolutionPass::forward:
      return {groups, real(c.n * c.p * c.q), real(c.k) / groups, real(c.c) / groups * taps};
    case ConvolutionPass::backward_data:
      return {groups, real(c.n * c.h * c.w), real(c.c) / groups,
              real(c.k) / groups * taps / real(c.stride_h * c.stride_w)};
    case ConvolutionPass::backward_filter: break;
  }
  return {groups, real(c.k) / groups, real(c.c) / groups * taps, real(c.n * c.p * c.q)};
}

double product_seconds(const ProductShape& shape, const ProductUnits& units, double share, const TimeModel& model) {
  const TileShares& shares = units.tensor_cores ? model.on_tensor_cores : model.on_cuda_cores;
  const Waves waves{shape, units, units.tensor_cores ? model.fill_on_tensor_cores : model.fill_on_cuda_cores};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kTiles.size(); ++i) {
    const auto rows = static_cast<double>(kTiles[i].rows), columns = static_cast<double>(kTiles[i].columns);
    for (const int split : kSplits) {
      if (split > 1 && shape.k / split < kLeastSplit) break;
      least = std::min({least, waves.seconds(rows, columns, split, share * shares[i]),
                        waves.seconds(columns, rows, split, share * shares[i])});
    }
  }
  return least;
}

}  // namespace gpuplan
