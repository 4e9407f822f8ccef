#include "estimator/aten/softmax.h"

namespace gpuplan::aten {

TensorId softmax(LayerBuilder& b, TensorId x, int dim, std::optional<DType> to) {
  const TensorId argument = x;
  const DType from = b.dtype(x);
  // Autocast gives the operator dtype=float32 instead of casting its argument (autocast_mode.h, fp32_set_opt_dtype).
  if (!to && b.autocast() && (from == DType::fp16 || from == DType::bf16)) to = DType::fp32;
  const DType dtype = to.value_or(from);
  if (!(from == DType::fp16 && dtype == DType::fp32)) x = b.cast(x, dtype);
  const Shape shape = b.shape(x);
  Softmax work{.elements = shape.elements(), .dtype = dtype};
  const TensorId y = b.emit(Operator::_softmax, work, {x}, shape, dtype);
  if (dim < 0) dim += shape.rank();
  b.attributes({{Attribute::dim, dim}});
  // After its result, the kernel makes a contiguous copy of an input that is not.
  if (!b.contiguous(x)) b.emit(Operator::contiguous, Copy{shape.elements()}, {x}, shape, b.dtype(x));
  if (NodeBuilder node = b.node("SoftmaxBackward0", y, {x})) {
    work.backward = work.product_scratch = true;
    node.give(x, node.run(Operator::_softmax_backward_data, work, {node.grad(), y}, shape, b.dtype(x)));
    node.attributes({{Attribute::dim, dim}});
  }
  b.hold({argument});  // the caller's, which outlives its cast
  return y;
}

}  // namespace gpuplan::aten
