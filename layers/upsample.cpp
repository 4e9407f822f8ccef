// Upsample, Interpolate: an image at another size.
//
// Saves sizes only. The backward allocates one gradient, zero-filled before it adds into it
// (aten/src/ATen/native/cuda/UpSampleNearest2d.cu, UpSampleBilinear2d.cu). Results are in the memory format that the
// operand suggests. Under autocast it computes in fp32. A scale gives floor(size * scale).

#include <cmath>
#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::layers {
namespace {

std::int64_t scaled(const LayerBuilder& b, std::int64_t size, double scale) {
  const double out = std::floor(static_cast<double>(size) * scale);
  if (!(out >= 1 && out < 1e15)) b.fail("scale_factor", "scale_factor gives no output size", "expected a factor > 0");
  return static_cast<std::int64_t>(out);
}

Shape output_shape(const LayerBuilder& b) {
  const Shape& in = b.shape(b.input());
  if (b.given("size") == b.given("scale_factor")) b.fail("size", "needs either size or scale_factor, and not both");
  if (b.given("scale_factor")) {
    const double scale = b.real("scale_factor");
    return {in[0], in[1], scaled(b, in[2], scale), scaled(b, in[3], scale)};
  }
  const Pair size = b.pair("size");
  if (size.h < 1 || size.w < 1) b.fail("size", "\"size\" must be at least 1", "expected sizes >= 1");
  return {in[0], in[1], size.h, size.w};
}

// Elements of the input from one element of the output to the next (aten/src/ATen/native/UpSample.h,
// compute_scales_value and area_pixel_compute_scale).
double step(const LayerBuilder& b, std::int64_t in, std::int64_t out, bool corners) {
  if (corners) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (b.given("scale_factor")) return 1 / b.real("scale_factor");
  return static_cast<double>(in) / static_cast<double>(out);
}

void lower(LayerBuilder& b) {
  b.expect_rank(4, "[N, C, H, W]");
  const std::string_view mode = b.word("mode");
  if (mode != "nearest" && mode != "bilinear")
    b.fail("mode", "mode '" + std::string(mode) + "' is not supported", "expected 'nearest' or 'bilinear'");
  const bool nearest = mode == "nearest";
  if (nearest && b.given("align_corners")) b.fail("align_corners", "align_corners goes with mode='bilinear' only");
  const TensorId x = b.autocast_fp32(b.input());
  const Shape in = b.shape(x);
  const Shape out = output_shape(b);
  const DType dtype = b.dtype(x);
  const Resample work{out.elements(), nearest ? 1 : 4};
  const TensorId y = b.emit(nearest ? "aten::upsample_nearest2d" : "aten::upsample_bilinear2d", work, {x},
                            {out, dtype, Placing::suggested});
  const bool corners = !nearest && b.given("align_corners") && b.boolean("align_corners");
  const std::initializer_list<double> steps{step(b, in[2], out[2], corners), step(b, in[3], out[3], corners),
                                            corners ? 1.0 : 0.0};
  b.numbers(steps);
  if (NodeBuilder node = b.node(nearest ? "UpsampleNearest2DBackward0" : "UpsampleBilinear2DBackward0", y, {x})) {
    node.give(x, node.run(nearest ? "aten::upsample_nearest2d_backward" : "aten::upsample_bilinear2d_backward", work,
                          {node.grad()}, {in, dtype, Placing::suggested}));
    node.numbers(steps);
  }
  b.output(y);
}

LayerDef definition(std::string_view name, std::string_view call, std::vector<std::int64_t> output,
                    std::string_view derivation) {
  return {
      .name = name,
      .summary = "resizes an image",
      .math =
          "x [N, C, H, W] -> y [N, C, H', W']; each element is read from 1 (nearest) or 4 (bilinear). Saved: nothing.",
      .parameters = {{"size", ParameterType::pair, "None", "size of the output"},
                     {"scale_factor", ParameterType::real, "None", "output size over input size, instead of size"},
                     {"mode", ParameterType::word, "nearest", "nearest or bilinear"},
                     {"align_corners", ParameterType::boolean, "None",
                      "bilinear: whether corners map to corners; takes no memory"}},
      .lower = lower,
      .example = {
          .call = call, .input_shapes = {{4, 8, 14, 14}}, .output_shape = std::move(output), .derivation = derivation}};
}

const LayerDef kUpsample =
    definition("Upsample", "Upsample(scale_factor=2)", {4, 8, 28, 28}, "14*2; only sizes are saved");
const LayerDef kInterpolate =
    definition("Interpolate", "Interpolate(size=[20, 21], mode=\"bilinear\", align_corners=False)", {4, 8, 20, 21},
               "only sizes are saved");

const LayerDef* const kLayers[] = {&kUpsample, &kInterpolate};

}  // namespace

std::span<const LayerDef* const> upsample_layers() { return kLayers; }

}  // namespace gpuplan::layers
