// ConvTranspose1d, ConvTranspose2d: the gradient of a convolution with respect to its image, used as a layer.
//
// The convolution whose gradient it is has the layer's output as its image and the layer's input as its feature map;
// weight [in_channels, out_channels / groups, R, S] is that convolution's filter. Forward runs its data-gradient
// pass, the input's gradient its forward pass (aten/src/ATen/native/cudnn/ConvShared.cpp,
// cudnn_convolution_transpose_*). One combined derivative formula: input and weight are both saved as soon as anything
// wants a gradient (derivatives.yaml, convolution). The bias is added in place. Backward: dX, dW, then the bias
// gradient.

#include "estimator/aten/convolution.h"
#include "estimator/base/integers.h"

namespace gpuplan::layers::conv_transpose {
namespace {

// A 1-D layer is a 2-D one over a single row; `row` is what its height has.
Pair argument(LayerBuilder& b, std::string_view name, bool one_d, std::int64_t row, std::int64_t least) {
  const Pair p = one_d ? Pair{row, b.pair(name).h} : b.pair(name);
  if (p.h < least || p.w < least)
    b.fail(name, "\"" + std::string(name) + "\" must be at least " + std::to_string(least),
           "expected >= " + std::to_string(least));
  return p;
}

struct Geometry {
  Pair kernel, stride, padding, output_padding, dilation;
};

Geometry geometry(LayerBuilder& b, bool one_d) {
  Geometry g;
  g.kernel = argument(b, "kernel_size", one_d, 1, 1);
  g.stride = argument(b, "stride", one_d, 1, 1);
  g.padding = argument(b, "padding", one_d, 0, 0);
  g.output_padding = argument(b, "output_padding", one_d, 0, 0);
  g.dilation = argument(b, "dilation", one_d, 1, 1);
  const auto fits = [](std::int64_t extra, std::int64_t stride, std::int64_t dilation) {
    return extra < stride || extra < dilation;
  };
  if (!fits(g.output_padding.h, g.stride.h, g.dilation.h) || !fits(g.output_padding.w, g.stride.w, g.dilation.w))
    b.fail("output_padding", "output_padding must be smaller than stride or dilation, as in PyTorch");
  if (b.word("padding_mode") != "zeros")
    b.fail("padding_mode", "a transposed convolution pads with zeros only", "expected 'zeros'");
  return g;
}

std::int64_t output_size(const LayerBuilder& b, std::int64_t in, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t output_padding, std::int64_t dilation) {
  const std::int64_t size = checked_mul(in - 1, stride) - 2 * padding + dilation * (kernel - 1) + output_padding + 1;
  if (size < 1)
    b.fail("padding",
           "the output would have size " + std::to_string(size) + " for an input of size " + std::to_string(in));
  return size;
}

void lower_transposed(LayerBuilder& b, bool one_d) {
  b.expect_rank(one_d ? 3 : 4, one_d ? "[N, C, L]" : "[N, C, H, W]");
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const std::int64_t k = b.size("in_channels", in[1], "input channels");
  const std::int64_t c = b.size("out_channels");
  const std::int64_t groups = b.size("groups");
  if (c % groups != 0 || k % groups != 0)
    b.fail("groups", "in_channels " + std::to_string(k) + " and out_channels " + std::to_string(c) +
                         " must both be divisible by groups " + std::to_string(groups));
  const Geometry g = geometry(b, one_d);
  const std::int64_t p = one_d ? 1 : in[2];
  const std::int64_t q = in[-1];
  const std::int64_t h =
      one_d ? 1 : output_size(b, p, g.kernel.h, g.stride.h, g.padding.h, g.output_padding.h, g.dilation.h);
  const std::int64_t w = output_size(b, q, g.kernel.w, g.stride.w, g.padding.w, g.output_padding.w, g.dilation.w);

  Convolution conv{.pass = ConvolutionPass::backward_data,
                   .n = in[0],
                   .c = c,
                   .h = h,
                   .w = w,
                   .k = k,
                   .p = p,
                   .q = q,
                   .r = g.kernel.h,
                   .s = g.kernel.w,
                   .stride_h = g.stride.h,
                   .stride_w = g.stride.w,
                   .pad_h = g.padding.h,
                   .pad_w = g.padding.w,
                   .dilation_h = g.dilation.h,
                   .dilation_w = g.dilation.w,
                   .groups = groups};
  const Shape out = one_d ? Shape{in[0], c, w} : Shape{in[0], c, h, w};
  aten::ConvolutionOperands of;
  of.input = x;
  of.weight =
      b.parameter("weight", one_d ? Shape{k, c / groups, g.kernel.w} : Shape{k, c / groups, g.kernel.h, g.kernel.w});
  if (b.boolean("bias")) of.bias = b.parameter("bias", {c});
  b.output(aten::convolution(b, conv, aten::cached_cast(b, of), out));
}

void lower_1d(LayerBuilder& b) { lower_transposed(b, true); }
void lower_2d(LayerBuilder& b) { lower_transposed(b, false); }

const std::vector<ParameterDef> kParameters = {
    {"in_channels", ParameterType::size, "", "channels of the input, or _"},
    {"out_channels", ParameterType::size, "", "channels of the output"},
    {"kernel_size", ParameterType::pair, "", "size of the kernel"},
    {"stride", ParameterType::pair, "1", "step between the windows that input elements spread to"},
    {"padding", ParameterType::pair, "0", "rows and columns cut from each side of the output"},
    {"output_padding", ParameterType::pair, "0", "rows and columns added to one side of the output"},
    {"groups", ParameterType::size, "1", "independent groups of channels"},
    {"bias", ParameterType::boolean, "True", "adds a learnable bias [out_channels]"},
    {"dilation", ParameterType::pair, "1", "step between kernel taps"},
    {"padding_mode", ParameterType::word, "zeros", "zeros only"},
};

const LayerDef kLayers[] = {
    {.name = "ConvTranspose1d",
     .summary = "transposed convolution over a sequence",
     .math = "x [N, K, Q], W [K, C/groups, S] -> y [N, C, L]; L = (Q - 1) stride - 2 pad + dilation (S - 1) + "
             "output_padding + 1.\nN K Q (C/groups) S multiply-adds forward, the same for dX and for dW. Saved: x and "
             "W.",
     .parameters = kParameters,
     .lower = lower_1d,
     .example = {.call = "ConvTranspose1d(8, 16, 4, stride=2)",
                 .input_shapes = {{4, 8, 50}},
                 .output_shape = {4, 16, 102},
                 .parameters = 528,
                 .forward_macs = 102'400,
                 .backward_macs = 204'800,
                 .saved_bytes = 6'400,
                 .derivation = "8*16*4 + 16 parameters; 4*8*50*16*4 multiply-adds; x is 4*8*50*4 bytes"}},
    {.name = "ConvTranspose2d",
     .summary = "transposed convolution over an image",
     .math =
         "x [N, K, P, Q], W [K, C/groups, R, S] -> y [N, C, H, W]; H = (P - 1) stride - 2 pad + dilation (R - 1) +\n"
         "output_padding + 1. N K P Q (C/groups) R S multiply-adds forward, the same for dX and for dW. Saved: x and "
         "W.",
     .parameters = kParameters,
     .lower = lower_2d,
     .example = {.call = "ConvTranspose2d(8, 16, 2, stride=2)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 16, 28, 28},
                 .parameters = 528,
                 .forward_macs = 401'408,
                 .backward_macs = 802'816,
                 .saved_bytes = 25'088,
                 .derivation = "8*16*2*2 + 16 parameters; 4*8*14*14*16*4 multiply-adds; x is 4*8*14*14*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::conv_transpose
