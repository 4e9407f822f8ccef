#include "estimator/aten/grouped_product.h"

#include "estimator/aten/opaque_kernel.h"
#include "estimator/base/integers.h"

namespace gpuplan::aten {

namespace {

// On compute capability 9 bf16 has a kernel of its own, with the problems' descriptions, of which three lists of
// strides begin at multiples of 16 bytes, and 512 bytes a multiprocessor (aten/src/ATen/native/cuda/GroupMM.cu); others
// multiply group by group. Their products are of no rows in the recordings, which know no router's choice: on a GPU
// each has cuBLAS's workspace for its time.
OpaqueKernel product(const LayerBuilder& b, std::int64_t rows, const Shape& weights, DType dtype) {
  constexpr std::int64_t kPointersAndSizes = 36, kStride = 8, kWorkspaceOfMultiprocessor = 512;
  ScratchProgram program;
  if (dtype == DType::bf16 && b.gpu().capability_major == 9) {
    ScratchWriter w(program);
    w.result();
    w.allocate(weights[0] * kPointersAndSizes + 3 * round_up(weights[0] * kStride, 16));
    w.allocate(b.gpu().sm_count * kWorkspaceOfMultiprocessor);
    w.release_all();
  }
  OpaqueKernel what = opaque_kernel(program);
  what.macs = checked_mul(checked_mul(rows, weights[1]), weights[2]);
  return what;
}

// Rows start at multiples of 16 bytes, for transfers of the tensor memory accelerator (native/GroupedMMUtils.h,
// compute_grouped_gemm_output_size_stride). `turned`: the result's last two dimensions are those of what is computed,
// swapped.
OutputSpec aligned_rows(const Shape& shape, DType dtype, bool turned = false) {
  const int row = turned ? shape.rank() - 2 : shape.rank() - 1, column = turned ? row + 1 : row - 1;
  const std::int64_t each = 16 / size_of(dtype);
  const std::int64_t padded = checked_mul((shape[row] + each - 1) / each, each);
  if (padded == shape[row] && !turned) return {shape, dtype};
  Strides strides = contiguous_strides(shape);
  strides.set(row, 1);
  strides.set(column, padded);
  if (shape.rank() == 3) strides.set(0, checked_mul(padded, shape[column]));
  const std::int64_t elements = checked_mul(shape.elements() / shape[row], padded);
  const std::int64_t last = elements - (padded - shape[row]);  // empty_strided() leaves out what follows the last row
  return {shape, dtype, Placing::given, strides, checked_mul(last, size_of(dtype))};
}

}  // namespace

TensorId grouped_product(LayerBuilder& b, TensorId x, TensorId weights, TensorId ends) {
  const Shape each = b.shape(weights);
  const std::int64_t rows = b.shape(x)[0];
  const DType dtype = b.dtype(x);
  const OpaqueKernel kernel = product(b, rows, each, dtype);
  const TensorId y = b.emit(Operator::_grouped_mm, kernel, {x, weights, ends}, aligned_rows({rows, each[1]}, dtype));
  b.attributes({{Attribute::gradient_of, 0}});
  if (NodeBuilder node = b.node("GroupedMmBackward0", y, {x, weights})) {
    Operand dw = 0;
    Operand dx = 0;
    if (node.needs(weights)) {
      // Laid out as the weights are, so that a parameter takes it as it is (_grouped_mm_mat2_grad).
      const Strides& lies = b.strides(weights);
      dw = node.run(Operator::_grouped_mm, kernel, {node.grad(), x, ends},
                    aligned_rows(each, dtype, lies[1] == 1 && lies[2] >= each[1]));
      node.attributes({{Attribute::gradient_of, 2}});
    }
    if (node.needs(x)) {
      dx = node.run(Operator::_grouped_mm, kernel, {node.grad(), weights, ends}, aligned_rows(b.shape(x), dtype));
      node.attributes({{Attribute::gradient_of, 1}});
    }
    if (node.needs(x)) node.give(x, dx);
    if (node.needs(weights)) node.give(weights, dw);
  }
  return y;
}

}  // namespace gpuplan::aten
