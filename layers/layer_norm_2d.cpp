// LayerNorm2d (torchvision, timm): layer normalisation over the channels of an image.
//
// x.permute(0, 2, 3, 1), F.layer_norm, permute(0, 3, 1, 2): a row-major image is copied for the kernel, the result is
// channels-last (torchvision/models/convnext.py).

#include "estimator/aten/normalization.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::layer_norm_2d {
namespace {

void lower(LayerBuilder& b) {
  b.expect_rank(4, "[N, C, H, W]");
  const std::int64_t c = b.size("num_channels", b.shape(b.input())[1], "channels");
  const bool affine = b.boolean("affine");
  const TensorId weight = affine ? b.parameter("weight", {c}) : kNone;
  const TensorId bias = affine ? b.parameter("bias", {c}) : kNone;
  const TensorId rows = aten::permute(b, b.input(), {0, 2, 3, 1});
  b.output(aten::permute(b, aten::layer_norm(b, rows, 1, weight, bias, b.real("eps")), {0, 3, 1, 2}));
}

const LayerDef kLayers[] = {
    {.name = "LayerNorm2d",
     .summary = "layer normalisation over the channels of an image",
     .math = "y = (x - mean) / sqrt(var + eps) * weight + bias over the channels of each pixel; y is channels-last.\n"
             "Saved: x, and the mean and rstd of each pixel.",
     .parameters = {{"num_channels", ParameterType::size, "", "channels of the input, or _"},
                    {"eps", ParameterType::real, "1e-06", "added to the variance"},
                    {"affine", ParameterType::boolean, "True", "learnable weight and bias [num_channels]"}},
     .lower = lower,
     .example = {.call = "LayerNorm2d(96)",
                 .input_shapes = {{2, 96, 14, 14}},
                 .parameters = 192,
                 .saved_bytes = 153'664,
                 .derivation = "x is 2*96*14*14*4 bytes, two statistics of 2*14*14*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::layer_norm_2d
