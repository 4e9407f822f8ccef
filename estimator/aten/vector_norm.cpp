#include "estimator/aten/vector_norm.h"

#include "estimator/graph/dimensions.h"

namespace gpuplan::aten {

// Autocast gives it dtype=float32 and x as it is (autocast_mode.h, fp32_set_opt_dtype): x is saved in its own type.
TensorId vector_norm(LayerBuilder& b, TensorId x, unsigned mask, bool keep) {
  const Shape in = b.shape(x);
  const DType dtype = b.autocast() && b.dtype(x) != DType::fp64 ? DType::fp32 : b.dtype(x);
  const Reduction work{.shape = in, .reduced = mask, .input = b.dtype(x), .output = dtype, .mean = true};
  const Shape kept = reduced_shape(in, mask, true);
  const TensorId y = b.emit(Operator::linalg_vector_norm, work, {x}, reduced_shape(in, mask, keep), dtype);
  b.attributes({{Attribute::dims, mask}, {Attribute::ord, 2}});
  if (NodeBuilder node = b.node("LinalgVectorNormBackward0", y, {x})) {
    const Operand direction = node.run(Operator::div, Elementwise{in.elements()}, {x, y}, in, dtype);
    const Operand none = node.run(Operator::eq, Elementwise{kept.elements()}, {y}, {kept, DType::boolean});
    node.attributes({{Attribute::other, 0}});
    node.run_in_place(Operator::masked_fill_, Elementwise{in.elements()}, {direction, none});
    node.attributes({{Attribute::value, 0}});
    node.give(x, node.run(Operator::mul, Elementwise{in.elements()}, {direction, node.grad()}, in, dtype));
    node.hold({direction, none});
  }
  return y;
}

}  // namespace gpuplan::aten
