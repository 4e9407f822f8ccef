// Conv1d, Conv2d: y[n, k] = b[k] + sum over c, r, s of W[k, c, r, s] x[n, c] (cross-correlation).
//
// One combined derivative formula: input and weight are both saved as soon as anything wants a gradient
// (derivatives.yaml, convolution). The bias is added in place. Backward: dX, dW, then the bias gradient
// dY.sum({0, 2, 3}). Operands that do not lie in the kernel's memory format are copied for it, in forward and again in
// backward; the originals are what is saved. Depthwise convolutions run PyTorch's own kernel, without a cuDNN
// workspace, which allocates dW before dX; cuDNN's only channels-last and for some fp16 shapes (aten/src/ATen/native/
// Convolution.cpp, cuda/DepthwiseConv2d.cu). Conv1d is viewed as 2-D. bf16 below capability 8.0 runs slow_conv2d:
// im2col and a product a sample (with groups PyTorch loops over them with copies of the slices, which is not modelled).

#include "estimator/aten/convolution.h"
#include "estimator/aten/weight.h"
#include "estimator/aten/windows.h"

namespace gpuplan::layers::conv {
namespace {

struct Padding {
  Pair total;   // both sides added up
  Pair before;  // what cuDNN is told
  bool symmetric = true;
};

Padding padding_of(const LayerBuilder& b, const aten::Filter& f, bool one_d) {
  if (!b.is_word("padding")) {
    const Pair p = one_d ? Pair{0, b.pair("padding").h} : b.pair("padding");
    if (p.h < 0 || p.w < 0) b.fail("padding", "padding is negative", "expected >= 0");
    return {{2 * p.h, 2 * p.w}, p, true};
  }
  const std::string_view word = b.word("padding");
  if (word == "valid") return {};
  if (word != "same")
    b.fail("padding", "padding is neither sizes nor 'same' or 'valid'", "expected 'same', 'valid' or sizes");
  if (f.stride.h != 1 || f.stride.w != 1) b.fail("padding", "padding='same' needs stride 1, as in PyTorch");
  const Pair total{f.dilation.h * (f.kernel.h - 1), f.dilation.w * (f.kernel.w - 1)};
  return {total, {total.h / 2, total.w / 2}, total.h % 2 == 0 && total.w % 2 == 0};
}

TensorId padded(LayerBuilder& b, TensorId x, const Padding& pad) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  Shape s = in;
  s.set(-1, in[-1] + pad.total.w % 2);
  if (in.rank() == 4) s.set(2, in[2] + pad.total.h % 2);
  const TensorId y = b.emit(Operator::constant_pad_nd, Copy{s.elements()}, {x}, s, dtype);
  if (NodeBuilder node = b.node("ConstantPadNdBackward0", y, {x}))
    node.give(x, node.run(Operator::constant_pad_nd, Copy{in.elements()}, {node.grad()}, in, dtype));
  return y;
}

void lower_convolution(LayerBuilder& b, bool one_d) {
  b.expect_rank(one_d ? 3 : 4, one_d ? "[N, C, L]" : "[N, C, H, W]");
  const TensorId x = b.input();
  const Shape& in = b.shape(x);
  const std::int64_t c = b.size("in_channels", in[1], "input channels");
  const std::int64_t k = b.size("out_channels");
  aten::Filter filter;
  filter.groups = aten::groups_of(b, c, k);
  filter.kernel = aten::pair_at_least(b, "kernel_size", 1, one_d);
  filter.stride = aten::pair_at_least(b, "stride", 1, one_d);
  filter.dilation = aten::pair_at_least(b, "dilation", 1, one_d);
  const Padding pad = padding_of(b, filter, one_d);
  filter.padding = pad.before;
  const auto size = [&](std::int64_t padded, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
    return aten::positions(b, "kernel", padded, aten::reach(kernel, dilation), stride);
  };
  Shape out = in;
  out.set(1, k);
  if (!one_d) out.set(2, size(in[2] + pad.total.h, filter.kernel.h, filter.stride.h, filter.dilation.h));
  out.set(-1, size(in[-1] + pad.total.w, filter.kernel.w, filter.stride.w, filter.dilation.w));
  const Convolution conv = aten::convolution_of(ConvolutionPass::forward, in, out, filter);
  aten::ConvolutionOperands of;
  of.input = x;
  const bool own = b.input_count() == 1;
  of.weight = aten::weight(b, own, "weight", 1, aten::filter_shape(conv, one_d));
  of.bias = aten::weight(b, own && b.boolean("bias"), "bias", 2, {k});
  of = aten::cached_cast(b, of);
  // padding='same' with an odd total pads the input explicitly first.
  if (!pad.symmetric) of.input = padded(b, of.input, pad);
  b.output(aten::convolution(b, conv, of, out));
}

void lower_1d(LayerBuilder& b) { lower_convolution(b, true); }
void lower_2d(LayerBuilder& b) { lower_convolution(b, false); }

const std::vector<ParameterDef> kParameters = {
    {"in_channels", ParameterType::size, "", "channels of the input, or _"},
    {"out_channels", ParameterType::size, "", "channels of the output"},
    {"kernel_size", ParameterType::pair, "", "size of the kernel"},
    {"stride", ParameterType::pair, "1", "step between windows"},
    {"padding", ParameterType::pair, "0", "zeros on each side, or 'same', 'valid'"},
    {"dilation", ParameterType::pair, "1", "step between kernel taps"},
    {"groups", ParameterType::size, "1", "independent groups of channels"},
    {"bias", ParameterType::boolean, "True", "adds a learnable bias [out_channels]"},
    {"padding_mode", ParameterType::word, "zeros", "zeros only"},
};

const LayerDef kLayers[] = {
    {.name = "Conv1d",
     .summary = "convolution over a sequence",
     .math =
         "x [N, C, L], W [K, C/groups, S] -> y [N, K, Q]; Q = floor((L + 2 pad - dilation (S - 1) - 1) / stride) + 1.\n"
         "N K Q (C/groups) S multiply-adds forward, the same for dX and for dW. Saved: x and W.",
     .parameters = kParameters,
     .max_inputs = 3,
     .lower = lower_1d,
     .example = {.call = "Conv1d(16, 32, 5, padding=2)",
                 .input_shapes = {{4, 16, 100}},
                 .output_shape = {4, 32, 100},
                 .parameters = 2'592,
                 .forward_macs = 1'024'000,
                 .backward_macs = 2'048'000,
                 .saved_bytes = 25'600,
                 .derivation = "32*16*5 + 32 parameters; 4*32*100*16*5 multiply-adds; x is 4*16*100*4 bytes"}},
    {.name = "Conv2d",
     .summary = "convolution over an image",
     .math = "x [N, C, H, W], W [K, C/groups, R, S] -> y [N, K, P, Q]; P = floor((H + 2 pad - dilation (R - 1) - 1) / "
             "stride) + 1.\nN K P Q (C/groups) R S multiply-adds forward, the same for dX and for dW; db = sum of dY "
             "over N, P, Q.\nSaved: x and W, whichever of them is trained (one combined derivative formula).",
     .parameters = kParameters,
     .max_inputs = 3,
     .lower = lower_2d,
     .example = {.call = "Conv2d(64, 128, 3, stride=2, padding=1, bias=False)",
                 .input_shapes = {{8, 64, 56, 56}},
                 .output_shape = {8, 128, 28, 28},
                 .parameters = 73'728,
                 .forward_macs = 462'422'016,
                 .backward_macs = 924'844'032,
                 .saved_bytes = 6'422'528,
                 .derivation = "128*64*3*3 parameters; 8*128*28*28*64*9 multiply-adds; x is 8*64*56*56*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::conv
