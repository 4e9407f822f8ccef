// ConvTranspose1d, ConvTranspose2d: the gradient of a convolution with respect to its image, used as a layer.
//
// The convolution whose gradient it is has the layer's output as its image and the layer's input as its feature map;
// weight [in_channels, out_channels / groups, R, S] is that convolution's filter. Forward runs its data-gradient
// pass, the input's gradient its forward pass (aten/src/ATen/native/cudnn/ConvShared.cpp,
// cudnn_convolution_transpose_*). One combined derivative formula: input and weight are both saved as soon as anything
// wants a gradient (derivatives.yaml, convolution). The bias is added in place. Backward: dX, dW, then the bias
// gradient.

#include "estimator/aten/convolution.h"
#include "estimator/aten/windows.h"
#include "estimator/base/integers.h"

namespace gpuplan::layers::conv_transpose {
namespace {

std::int64_t output_size(const LayerBuilder& b, std::int64_t in, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t output_padding, std::int64_t dilation) {
  const std::int64_t size = checked_mul(in - 1, stride) - 2 * padding + aten::reach(kernel, dilation) + output_padding;
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
  aten::Filter f;
  f.groups = aten::groups_of(b, k, c);
  f.kernel = aten::pair_at_least(b, "kernel_size", 1, one_d);
  f.stride = aten::pair_at_least(b, "stride", 1, one_d);
  f.padding = aten::pair_at_least(b, "padding", 0, one_d);
  const Pair extra = aten::pair_at_least(b, "output_padding", 0, one_d);
  f.dilation = aten::pair_at_least(b, "dilation", 1, one_d);
  const auto fits = [](std::int64_t more, std::int64_t stride, std::int64_t dilation) {
    return more < stride || more < dilation;
  };
  if (!fits(extra.h, f.stride.h, f.dilation.h) || !fits(extra.w, f.stride.w, f.dilation.w))
    b.fail("output_padding", "output_padding must be smaller than stride or dilation, as in PyTorch");
  if (b.word("padding_mode") != "zeros")
    b.fail("padding_mode", "a transposed convolution pads with zeros only", "expected 'zeros'");
  Shape out = in;
  out.set(1, c);
  if (!one_d) out.set(2, output_size(b, in[2], f.kernel.h, f.stride.h, f.padding.h, extra.h, f.dilation.h));
  out.set(-1, output_size(b, in[-1], f.kernel.w, f.stride.w, f.padding.w, extra.w, f.dilation.w));
  const Convolution conv = aten::convolution_of(ConvolutionPass::backward_data, out, in, f);
  aten::ConvolutionOperands of;
  of.input = x;
  of.weight = b.parameter("weight", aten::filter_shape(conv, one_d));
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
