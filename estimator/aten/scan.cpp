#include "estimator/aten/scan.h"

#include "estimator/aten/opaque_kernel.h"
#include "estimator/base/integers.h"
#include "estimator/operators/cub.h"

namespace gpuplan::aten {
namespace {

constexpr std::int64_t kTileOfFourBytes = 1920;  // of a scan of 4-byte elements

OpaqueKernel scan(const Shape& shape, int dim, DType from, DType to, PyTorchVersion pytorch) {
  ScratchProgram program;
  ScratchWriter w(program);
  w.result();
  if (from != to) w.allocate(checked_mul(shape.elements(), size_of(to)));
  if (shape.elements() == shape[dim]) {
    const bool wide = size_of(to) > 4;
    w.use(cub_scan_bytes(shape[dim], wide ? kCubScanTile : kTileOfFourBytes, pytorch,
                         wide ? kCubScanState : kCubScanState / 2));
  }
  w.release_all();
  return opaque_kernel(program, shape.elements());
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

void scatter_gradient(LayerBuilder& b, std::string_view name, TensorId x, TensorId values, TensorId indices, int dim) {
  if (NodeBuilder node = b.node(name, values, {x})) {
    const Shape in = b.shape(x);
    const Operand dx = node.run(Operator::new_zeros, Fill{in.elements()}, {}, in, b.dtype(x));
    node.run_in_place(Operator::scatter_, Elementwise{b.elements(indices)}, {dx, node.grad(), indices});
    node.attributes({{Attribute::dim, dim}});
    node.give(x, dx);
  }
}

std::vector<TensorId> sort(LayerBuilder& b, TensorId x, int dim) {
  constexpr std::int64_t kOneBlock = 4096;
  const Shape in = b.shape(x);
  const bool radix = in[dim] > kOneBlock;
  if (radix && (in.elements() != in[dim] || b.dtype(x) != DType::int64))
    b.fail("sorts rows of " + std::to_string(in[dim]) + " elements, and of more than " + std::to_string(kOneBlock) +
           " PyTorch's scratch is not known; gpuplan shadow --learn plans such a step as it is recorded");
  ScratchProgram program;
  ScratchWriter w(program);
  w.result(2);
  w.allocate(checked_mul(in[dim], size_of(DType::int64)));
  if (radix) w.allocate(cub_sort_bytes(in[dim], b.gpu()));
  w.release_all();
  const OutputSpec results[] = {{in, b.dtype(x)}, {in, DType::int64}};
  std::vector<TensorId> made = b.emit_many(Operator::sort, opaque_kernel(program, in.elements()), {x}, results);
  b.attributes({{Attribute::dim, dim}});
  scatter_gradient(b, "SortBackward0", x, made[0], made[1], dim);
  return made;
}

}  // namespace gpuplan::aten
