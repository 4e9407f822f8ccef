// Upsample, Interpolate: an image at another size.
//
// Saves sizes only. The backward allocates one gradient, zero-filled before it adds into it
// (aten/src/ATen/native/cuda/UpSampleNearest2d.cu, UpSampleBilinear2d.cu, UpSampleBicubic2d.cu, UpSampleLinear1d.cu).
// Results are in the memory format that the operand suggests; the gradient of bicubic is contiguous. The backward's
// kernels read a gradient without gaps, copied once the result is there: that of a concatenation is a slice. Bicubic's
// and the antialiased ones' read a contiguous one. It computes in fp32 under autocast. A scale gives floor(size * it).

#include <cmath>
#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::layers::upsample {
namespace {

std::int64_t scaled(const LayerBuilder& b, std::int64_t size, double scale) {
  const double out = std::floor(static_cast<double>(size) * scale);
  if (!(out >= 1 && out < 1e15)) b.fail("scale_factor", "scale_factor gives no output size", "expected a factor > 0");
  return static_cast<std::int64_t>(out);
}

Shape output_shape(const LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  if (b.given("size") == b.given("scale_factor")) b.fail("size", "needs either size or scale_factor, and not both");
  Shape out{in[0], in[1]};
  if (b.given("scale_factor")) {
    for (int d = 2; d < in.rank(); ++d) out.push_back(scaled(b, in[d], b.real("scale_factor")));
    return out;
  }
  const Pair size = b.pair("size");
  if (size.h < 1 || size.w < 1) b.fail("size", "\"size\" must be at least 1", "expected sizes >= 1");
  out.push_back(size.h);
  if (in.rank() == 4) out.push_back(size.w);
  return out;
}

// Elements of the input from one element of the output to the next (aten/src/ATen/native/UpSample.h,
// compute_scales_value and area_pixel_compute_scale).
double step(const LayerBuilder& b, std::int64_t in, std::int64_t out, bool corners) {
  if (corners) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (b.given("scale_factor")) return 1 / b.real("scale_factor");
  return static_cast<double>(in) / static_cast<double>(out);
}

struct Kernel {
  std::string_view mode;
  Operator op;
  std::string_view node;
  Operator backward;
  int rank = 4;
  int taps = 4;                   // elements read for one of the result
  bool corners = true;            // knows align_corners
  bool reads_contiguous = false;  // backward
  bool gives_contiguous = false;
};

constexpr Kernel kKernels[] = {
    {"nearest", Operator::upsample_nearest2d, "UpsampleNearest2DBackward0", Operator::upsample_nearest2d_backward, 4, 1,
     false},
    {"bilinear", Operator::upsample_bilinear2d, "UpsampleBilinear2DBackward0", Operator::upsample_bilinear2d_backward},
    {"bicubic", Operator::upsample_bicubic2d, "UpsampleBicubic2DBackward0", Operator::upsample_bicubic2d_backward, 4,
     16, true, true, true},
    {"linear", Operator::upsample_linear1d, "UpsampleLinear1DBackward0", Operator::upsample_linear1d_backward, 3, 2,
     true, false, true},
};
constexpr Kernel kAntialiased[] = {
    {"bilinear", Operator::_upsample_bilinear2d_aa, "UpsampleBilinear2DAaBackward0",
     Operator::_upsample_bilinear2d_aa_backward, 4, 4, true, true},
    {"bicubic", Operator::_upsample_bicubic2d_aa, "UpsampleBicubic2DAaBackward0",
     Operator::_upsample_bicubic2d_aa_backward, 4, 16, true, true, true},
};

Kernel kernel_of(const LayerBuilder& b) {
  const bool antialias = b.boolean("antialias");
  const std::string_view mode = b.word("mode");
  for (const Kernel& k : antialias ? std::span<const Kernel>(kAntialiased) : std::span<const Kernel>(kKernels))
    if (k.mode == mode) return k;
  if (antialias) b.fail("mode", "antialias goes with mode='bilinear' or 'bicubic' only");
  b.fail("mode", "mode '" + std::string(mode) + "' is not supported",
         "expected 'nearest', 'linear', 'bilinear' or 'bicubic'");
}

void lower(LayerBuilder& b) {
  const Kernel kernel = kernel_of(b);
  b.expect_rank(kernel.rank, kernel.rank == 4 ? "[N, C, H, W]" : "[N, C, L]");
  if (!kernel.corners && b.given("align_corners"))
    b.fail("align_corners", "align_corners goes with mode='linear', 'bilinear' or 'bicubic' only");
  const TensorId x = b.autocast_fp32(b.input());
  const Shape in = b.shape(x);
  const Shape out = output_shape(b);
  const DType dtype = b.dtype(x);
  const Resample work{out.elements(), kernel.taps};
  const TensorId y = b.emit(kernel.op, work, {x}, {out, dtype, Placing::suggested});
  const bool corners = kernel.corners && b.given("align_corners") && b.boolean("align_corners");
  std::vector<AttributeValue> steps{{Attribute::step_w, step(b, in[-1], out[-1], corners)},
                                    {Attribute::align_corners, corners}};
  if (in.rank() == 4) steps.emplace_back(Attribute::step_h, step(b, in[2], out[2], corners));
  b.attributes(steps);
  if (NodeBuilder node = b.node(kernel.node, y, {x})) {
    const Placing placing = kernel.gives_contiguous ? Placing::contiguous : Placing::suggested;
    node.give(x, node.run(kernel.backward, work, {node.grad()}, {in, dtype, placing}));
    node.attributes(steps);
    (void)(kernel.reads_contiguous ? node.contiguous(node.grad()) : node.without_gaps(node.grad()));
  }
  b.output(y);
}

LayerDef definition(std::string_view name, std::string_view call, std::vector<std::int64_t> output,
                    std::string_view derivation) {
  return {
      .name = name,
      .summary = "resizes an image",
      .math =
          "x [N, C, H, W] -> y [N, C, H', W']; each element is read from 1 (nearest), 4 (bilinear) or 16 (bicubic);\n"
          "linear: [N, C, L] -> [N, C, L'], from 2. Saved: nothing.",
      .parameters = {{"size", ParameterType::pair, "None", "size of the output"},
                     {"scale_factor", ParameterType::real, "None", "output size over input size, instead of size"},
                     {"mode", ParameterType::word, "nearest", "nearest, linear, bilinear or bicubic"},
                     {"align_corners", ParameterType::boolean, "None",
                      "whether corners map to corners; takes no memory"},
                     {"antialias", ParameterType::boolean, "False", "of bilinear and bicubic: smooths what shrinks"}},
      .lower = lower,
      .example = {
          .call = call, .input_shapes = {{4, 8, 14, 14}}, .output_shape = std::move(output), .derivation = derivation}};
}

const LayerDef kLayers[] = {
    definition("Upsample", "Upsample(scale_factor=2)", {4, 8, 28, 28}, "14*2; only sizes are saved"),
    definition("Interpolate", "Interpolate(size=[20, 21], mode=\"bilinear\", align_corners=False)", {4, 8, 20, 21},
               "only sizes are saved"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::upsample
