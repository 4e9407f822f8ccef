// Conv3d: y[n, k] = b[k] + sum over c, t, r, s of W[k, c, t, r, s] x[n, c] (cross-correlation) over a volume.
//
// Input and weight are both saved (derivatives.yaml, convolution), the bias is added in place. Backward: dX, dW, then
// the bias gradient. cuDNN's workspaces of three dimensions are not known here: plans say so, and exports of a model
// have them recorded. An input that is not contiguous is not modelled.

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/volumes.h"
#include "estimator/aten/weight.h"
#include "estimator/base/integers.h"

namespace gpuplan::layers::conv3d {
namespace {

OpaqueKernel products(std::int64_t macs) {
  OpaqueKernel kernel = aten::opaque_kernel(ScratchProgram{});
  kernel.macs = macs;
  return kernel;
}

struct Operands {
  TensorId input, weight, bias;
};

void backward(NodeBuilder& node, const LayerBuilder& b, const Operands& of, std::int64_t macs) {
  node.save(of.input);
  node.save(of.weight);
  const DType dtype = b.dtype(of.input);
  const Shape out = node.shape(node.grad());
  Operand dx = 0, dw = 0, db = 0;
  if (node.needs(of.input))
    dx = node.run(Operator::conv3d_backward, products(macs), {node.grad(), of.weight}, b.shape(of.input), dtype);
  if (node.needs(of.weight))
    dw = node.run(Operator::conv3d_backward, products(macs), {node.grad(), of.input}, b.shape(of.weight), dtype);
  if (node.needs(of.bias)) {
    constexpr unsigned kAllButChannels = 0b11101U;
    db = node.run(Operator::sum, Reduction{out, kAllButChannels, dtype, dtype}, {node.grad()}, b.shape(of.bias), dtype);
    node.attributes({{Attribute::dims, kAllButChannels}});
  }
  if (node.needs(of.input)) node.give(of.input, dx);
  if (node.needs(of.weight)) node.give(of.weight, dw);
  if (node.needs(of.bias)) node.give(of.bias, db);
}

void lower(LayerBuilder& b) {
  const Shape in = aten::volume_of(b);
  const std::int64_t c = b.size("in_channels", in[1], "input channels"), k = b.size("out_channels");
  const std::int64_t groups = aten::groups_of(b, c, k);
  const aten::Triple kernel = aten::triple(b, "kernel_size", 1), stride = aten::triple(b, "stride", 1);
  const aten::Triple padding = aten::triple(b, "padding", 0), dilation = aten::triple(b, "dilation", 1);
  Shape out = in;
  out.set(1, k);
  for (int d = 0; d < 3; ++d) {
    const auto i = static_cast<std::size_t>(d);
    out.set(2 + d, aten::positions(b, "kernel", in[2 + d] + 2 * padding[i], aten::reach(kernel[i], dilation[i]),
                                   stride[i], false));
  }
  const bool own = b.input_count() == 1;
  const Shape filter{k, c / groups, kernel[0], kernel[1], kernel[2]};
  Operands of{b.input(), aten::weight(b, own, "weight", 1, filter),
              aten::weight(b, own && b.boolean("bias"), "bias", 2, {k})};
  of.bias = b.cached_cast(of.bias);
  of.weight = b.cached_cast(of.weight);
  of.input = b.cached_cast(of.input);
  const std::int64_t macs = checked_mul(out.elements(), filter.elements(1, 5));
  TensorId y = b.emit(Operator::conv3d, products(macs), {of.input, of.weight}, out, b.dtype(of.input));
  if (of.bias != kNone) {
    const Shape channels{1, k, 1, 1, 1};
    const TensorId bias = b.alias(of.bias, channels, contiguous_strides(channels));
    y = b.emit_in_place(Operator::add_, Elementwise{out.elements()}, {y, bias});
  }
  if (NodeBuilder node = b.node("ConvolutionBackward0", y, {of.input, of.weight, of.bias})) backward(node, b, of, macs);
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "Conv3d",
     .summary = "convolution over a volume; cuDNN's workspaces are not planned",
     .math = "x [N, C, D, H, W], W [K, C/groups, T, R, S] -> y [N, K, O, P, Q], sizes as Conv2d.\nN K O P Q (C/groups) "
             "T R S multiply-adds forward, the same for dX and for dW. Saved: x and W.",
     .parameters = {{"in_channels", ParameterType::size, "", "channels of the input, or _"},
                    {"out_channels", ParameterType::size, "", "channels of the output"},
                    {"kernel_size", ParameterType::integers, "", "size of the kernel, one number or three"},
                    {"stride", ParameterType::integers, "1", "step between windows"},
                    {"padding", ParameterType::integers, "0", "zeros on each side"},
                    {"dilation", ParameterType::integers, "1", "step between kernel taps"},
                    {"groups", ParameterType::size, "1", "independent groups of channels"},
                    {"bias", ParameterType::boolean, "True", "adds a learnable bias [out_channels]"}},
     .max_inputs = 3,
     .lower = lower,
     .example = {.call = "Conv3d(8, 16, 3, padding=1)",
                 .input_shapes = {{2, 8, 10, 10, 10}},
                 .output_shape = {2, 16, 10, 10, 10},
                 .parameters = 3'472,
                 .forward_macs = 6'912'000,
                 .backward_macs = 13'824'000,
                 .saved_bytes = 64'000,
                 .derivation = "16*8*27 + 16 parameters; 2*16*1000*8*27 multiply-adds; x is 2*8*1000*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::conv3d
