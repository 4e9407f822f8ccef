#include "estimator/aten/scan.h"

#include "estimator/base/integers.h"
#include "estimator/operators/cub.h"
#include "estimator/operators/reduction.h"

namespace gpuplan::aten {
namespace {

constexpr std::int64_t kTileOfFourBytes = 1920;  // of a scan of 4-byte elements

Scripted scan(const Shape& shape, int dim, DType from, DType to, PyTorchVersion pytorch) {
  Scripted what{.elementwise_flops = shape.elements()};
  const auto act = [&](std::int64_t action) { what.program[static_cast<std::size_t>(what.actions++)] = action; };
  std::int64_t allocations = 0;
  act(kResultAllocation);
  if (from != to) {
    act(checked_mul(shape.elements(), size_of(to)));
    ++allocations;
  }
  if (shape.elements() == shape[dim]) {
    const bool wide = size_of(to) > 4;
    act(cub_scan_bytes(shape[dim], wide ? kCubScanTile : kTileOfFourBytes, pytorch,
                       wide ? kCubScanState : kCubScanState / 2));
    act(-allocations - 1);
  }
  if (from != to) act(-1);
  return what;
}

}  // namespace

TensorId cumsum(LayerBuilder& b, TensorId x, int dim, std::optional<DType> dtype) {
  x = b.autocast_fp32(x);
  const Shape shape = b.shape(x);
  const DType from = b.dtype(x);
  const DType to = dtype ? *dtype : is_floating(from) ? from : DType::int64;
  const TensorId y = b.emit(Operator::cumsum, scan(shape, dim, from, to, b.run().pytorch), {x}, shape, to);
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("CumsumBackward0", y, {x})) {
    const Copy flip{shape.elements()};
    const Operand reversed = node.run(Operator::flip, flip, {node.grad()}, shape, to);
    const Operand sums = node.run(Operator::cumsum, scan(shape, dim, to, to, b.run().pytorch), {reversed}, shape, to);
    const Operand dx = node.run(Operator::flip, flip, {sums}, shape, to);
    node.hold({reversed, sums});
    node.give(x, dx);
  }
  return y;
}

}  // namespace gpuplan::aten
