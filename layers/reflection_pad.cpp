// ReflectionPad2d: an image continued over its sides by its own mirror image.
//
// Saves the input, of which the gradient reads sizes. Result and gradient are contiguous; an operand that is not is
// copied once the result is there (aten/src/ATen/native/cuda/ReflectionPad.cu).

#include <string>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/base/integers.h"
#include "estimator/graph/layer.h"

namespace gpuplan::layers::reflection_pad {
namespace {

void lower(LayerBuilder& b) {
  b.expect_rank(4, "[N, C, H, W]");
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  std::vector<std::int64_t> pad = b.integers("padding");
  if (pad.size() == 1) pad.assign(4, pad[0]);
  if (pad.size() != 4) b.fail("padding", "padding has four sides", "expected (left, right, top, bottom) or one number");
  for (std::size_t i = 0; i < 4; ++i)
    if (pad[i] < 0 || pad[i] >= in[i < 2 ? 3 : 2])
      b.fail("padding", "a side of " + std::to_string(pad[i]) + " of an image " + to_string(in),
             "expected 0 or more, and less than the image's size");
  const Shape out{in[0], in[1], checked_add(in[2], pad[2] + pad[3]), checked_add(in[3], pad[0] + pad[1])};
  const std::int64_t copy = checked_mul(in.elements(), size_of(dtype));
  const OpaqueKernel work = aten::result_with_temporary(b.contiguous(x) ? 0 : copy);
  const TensorId y = b.emit(Operator::reflection_pad2d, work, {x}, {out, dtype, Placing::contiguous});
  if (NodeBuilder node = b.node("ReflectionPad2DBackward0", y, {x})) {
    node.save(x);
    const Operand dx = node.run(Operator::zeros_like, Fill{in.elements()}, {}, in, dtype);
    const Operand dy = node.contiguous(node.grad());
    node.run_in_place(Operator::reflection_pad2d_backward, Copy{out.elements()}, {dx, dy});
    node.give(x, dx);
  }
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "ReflectionPad2d",
     .summary = "pads an image with its reflection",
     .math =
         "x [N, C, H, W] -> y [N, C, top + H + bottom, left + W + right]. Saved: x, though only its sizes are read.",
     .parameters = {{"padding", ParameterType::integers, "", "(left, right, top, bottom), or one number for all"}},
     .lower = lower,
     .example = {.call = "ReflectionPad2d([1, 2, 1, 2])",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 17, 17},
                 .saved_bytes = 25'088,
                 .derivation = "x is 4*8*14*14*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::reflection_pad
