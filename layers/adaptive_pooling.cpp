// AdaptiveAvgPool2d: the mean of each of output_size windows.
//
// An output of 1 x 1 is mean over the last two dimensions (aten/src/ATen/native/AdaptiveAveragePooling.cpp), which
// saves only sizes; before 2.0 mean.dim saved its input. Any other size saves the input and has a kernel of its own.

#include "estimator/graph/layer.h"

namespace gpuplan::layers {
namespace {

void lower_mean(LayerBuilder& b, const Shape& out) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const Reduction mean{.shape = in, .reduced = 0b1100U, .input = dtype, .output = dtype, .mean = true};
  const TensorId y = b.emit("aten::mean", mean, {x}, out, dtype);
  if (NodeBuilder node = b.node("MeanBackward1", y, {x})) {
    if (b.before(200)) node.save(x);
    node.give(x, node.run("aten::div", Elementwise{in.elements()}, {node.grad()}, in, dtype));
  }
  b.output(y);
}

void lower(LayerBuilder& b) {
  b.expect_rank(4, "[N, C, H, W]");
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const Pair size = b.pair("output_size");
  if (size.h < 1 || size.w < 1) b.fail("output_size", "\"output_size\" must be at least 1", "expected sizes >= 1");
  const Shape out{in[0], in[1], size.h, size.w};
  if (size.h == 1 && size.w == 1) return lower_mean(b, out);
  // Windows overlap where the sizes do not divide; on average each input element is read about once.
  const Pooling work{in.elements(), 1};
  const TensorId y = b.emit("aten::_adaptive_avg_pool2d", work, {x}, out, dtype);
  if (NodeBuilder node = b.node("AdaptiveAvgPool2DBackward0", y, {x}))
    node.give(x, node.run("aten::_adaptive_avg_pool2d_backward", work, {node.grad(), x}, in, dtype));
  b.output(y);
}

const LayerDef kAdaptiveAvgPool2d{
    .name = "AdaptiveAvgPool2d",
    .summary = "mean over as many windows as asked for",
    .math =
        "x [N, C, H, W] -> y [N, C, P, Q]. 1 x 1 is mean(-1, -2) and saves nothing (before 2.0: x); other sizes save "
        "x.",
    .parameters = {{"output_size", ParameterType::pair, "", "size of the output, one number for both"}},
    .lower = lower,
    .example = {.call = "AdaptiveAvgPool2d(7)",
                .input_shapes = {{4, 8, 14, 14}},
                .output_shape = {4, 8, 7, 7},
                .saved_bytes = 25'088,
                .derivation = "x is 4*8*14*14*4 bytes"},
};

const LayerDef* const kLayers[] = {&kAdaptiveAvgPool2d};

}  // namespace

std::span<const LayerDef* const> adaptive_pooling_layers() { return kLayers; }

}  // namespace gpuplan::layers
