// WeightNorm: torch._weight_norm(v, g, dim), what torch.nn.utils.weight_norm and parametrizations.weight_norm make a
// weight of: w = g v / |v|, the norm of each slice along dim.
//
// aten/src/ATen/native/WeightNorm.cpp: one kernel where dim is the first or the last dimension, with the norms as a
// second result; derivatives.yaml saves v, g and the norms. Both gradients come from one kernel. Autocast leaves it
// alone.

#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::layers::weight_norm {
namespace {

void lower(LayerBuilder& b) {
  const TensorId v = b.input(), g = b.input(1);
  const Shape shape = b.shape(v);
  const std::int64_t dim = b.integer("dim");  // -1, PyTorch's norm of the whole, is refused
  if (dim != 0 && dim != shape.rank() - 1)
    b.fail("dim", "weight_norm along a dimension between others is not one kernel", "expected 0 or the last one");
  Shape norms;
  for (int i = 0; i < shape.rank(); ++i) norms.push_back(i == dim ? shape[i] : 1);
  if (b.shape(g) != norms) b.fail("expects " + to_string(norms) + " as its g, input 1 is " + to_string(b.shape(g)));
  const DType dtype = b.dtype(v);
  const Elementwise work = each_of(Operator::_weight_norm_interface, shape);
  const OutputSpec results[] = {{shape, dtype}, {norms, accumulate_type(dtype)}};
  const std::vector<TensorId> made = b.emit_many(Operator::_weight_norm_interface, work, {v, g}, results);
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("WeightNormInterfaceBackward0", made[0], {v, g})) {
    const OutputSpec gradients[] = {{shape, dtype}, {norms, b.dtype(g)}};
    const std::vector<Operand> both =
        node.run_many(Operator::_weight_norm_interface_backward, work, {node.grad(), v, g, made[1]}, gradients);
    node.attributes({{Attribute::dim, dim}});
    if (node.needs(v)) node.give(v, both[0]);
    if (node.needs(g)) node.give(g, both[1]);
  }
  b.output(made[0]);
}

const LayerDef kLayers[] = {
    {.name = "WeightNorm",
     .summary = "a weight computed from its direction and norms, as torch.nn.utils.weight_norm does",
     .math = "v [...], g of v's size along dim -> w = g v / |v|, of v's shape. Saved: v, g and the norms.",
     .parameters = {{"dim", ParameterType::integer, "0",
                     "the dimension that has a norm for each index: the first or last"}},
     .min_inputs = 2,
     .lower = lower,
     .example = {.call = "WeightNorm()",
                 .input_shapes = {{80, 48}, {80, 1}},
                 .saved_bytes = 16'000,
                 .derivation = "v is 80*48*4 bytes, g and the norms 80*4 each"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::weight_norm
