// GLU: torch.nn.functional.glu, one half of a dimension times the sigmoid of the other.
//
// One kernel, which saves the input; its gradient is one tensor as large as that, without temporaries
// (aten/src/ATen/native/GatedLinearUnit.cpp, aten/src/ATen/native/cuda/ActivationGluKernel.cu).

#include "estimator/graph/dimensions.h"
#include "estimator/graph/layer.h"

namespace gpuplan::layers::glu {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  if (in[dim] % 2 != 0)
    b.fail("dim", "dimension " + std::to_string(dim) + " of the input " + to_string(in) + " has no halves",
           "expected an even size");
  Shape half = in;
  half.set(dim, in[dim] / 2);
  const TensorId y = b.emit(Operator::glu, Elementwise{half.elements()}, {x}, half, b.dtype(x));
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("GluBackward0", y, {x})) {
    const Operand dx = node.run(Operator::glu_backward, Elementwise{in.elements()}, {node.grad(), x}, in, b.dtype(x));
    node.attributes({{Attribute::dim, dim}});
    node.give(x, dx);
  }
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "GLU",
     .summary = "one half times the sigmoid of the other",
     .math = "x = [a, b] along dim -> a sigmoid(b). Saves its input.",
     .parameters = {{"dim", ParameterType::integer, "-1", "dimension that is halved"}},
     .lower = lower,
     .example = {.call = "GLU(1)",
                 .input_shapes = {{2, 8, 4, 4}},
                 .output_shape = {2, 4, 4, 4},
                 .saved_bytes = 1'024,
                 .derivation = "its input, 2*8*4*4*4 bytes, is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::glu
