// MaxPool3d, AvgPool3d, AdaptiveAvgPool3d, AdaptiveMaxPool3d: windows over volumes [N, C, D, H, W].
//
// The maximum allocates its result, then int64 indices, and saves input and indices; the mean saves its input, of which
// it only reads the sizes; an adaptive mean of one window is mean(-1, -2, -3), which saves nothing
// (aten/src/ATen/native/cuda/DilatedMaxPool3d.cu, AveragePool3d.cu, AdaptiveAveragePooling3d.cu). Asked of PyTorch 2.15
// by recorded calls; an input that is not contiguous is not modelled.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/volumes.h"

namespace gpuplan::layers::pooling_3d {
namespace {

struct Pool {
  Operator forward, backward;
  std::string_view node;
  bool finds_places;
};

constexpr Pool kMax{Operator::max_pool3d_with_indices, Operator::max_pool3d_with_indices_backward,
                    "MaxPool3DWithIndicesBackward0", true};
constexpr Pool kMean{Operator::avg_pool3d, Operator::avg_pool3d_backward, "AvgPool3DBackward0", false};
constexpr Pool kAdaptiveMax{Operator::adaptive_max_pool3d, Operator::adaptive_max_pool3d_backward,
                            "AdaptiveMaxPool3DBackward0", true};
constexpr Pool kAdaptiveMean{Operator::_adaptive_avg_pool3d, Operator::_adaptive_avg_pool3d_backward,
                             "AdaptiveAvgPool3DBackward0", false};

void lower_pool(LayerBuilder& b, const Pool& pool, const Shape& out, std::int64_t taps) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const Pooling work{out.elements(), taps};
  const OutputSpec results[] = {{out, dtype}, {out, DType::int64}};
  const std::vector<TensorId> made =
      b.emit_many(pool.forward, work, {x}, std::span(results).first(pool.finds_places ? 2 : 1));
  if (NodeBuilder node = b.node(pool.node, made[0], {x})) {
    node.save(x);
    const Operand dx = pool.finds_places
                           ? node.run(pool.backward, Pooling{out.elements(), 1}, {node.grad(), x, made[1]}, in, dtype)
                           : node.run(pool.backward, work, {node.grad(), x}, in, dtype);
    node.give(x, dx);
  }
  b.output(made[0]);
}

template <const Pool& pool>
void lower_windows(LayerBuilder& b) {
  const Shape in = aten::volume_of(b);
  const aten::Triple kernel = aten::triple(b, "kernel_size", 1);
  const aten::Triple stride = b.is_none("stride") ? kernel : aten::triple(b, "stride", 1);
  const aten::Triple padding = aten::triple(b, "padding", 0);
  Shape out = in;
  for (int d = 0; d < 3; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (padding[i] > kernel[i] / 2) b.fail("padding", "padding is more than half of the window");
    out.set(2 + d, aten::positions(b, "window", in[2 + d] + 2 * padding[i], kernel[i], stride[i], false));
  }
  lower_pool(b, pool, out, kernel[0] * kernel[1] * kernel[2]);
}

template <const Pool& pool>
void lower_adaptive(LayerBuilder& b) {
  const Shape in = aten::volume_of(b);
  const aten::Triple size = aten::triple(b, "output_size", 1);
  const Shape out{in[0], in[1], size[0], size[1], size[2]};
  if (!pool.finds_places && out.elements(2, 5) == 1) return b.output(aten::reduce(b, b.input(), 0b11100U, true, true));
  lower_pool(b, pool, out, std::max<std::int64_t>(1, in.elements(2, 5) / out.elements(2, 5)));
}

const std::vector<ParameterDef> kWindows = {
    {"kernel_size", ParameterType::integers, "", "size of the window, one number or three"},
    {"stride", ParameterType::integers, "None", "step between windows; None: kernel_size"},
    {"padding", ParameterType::integers, "0", "padding on each side, at most half the window"}};
const std::vector<ParameterDef> kSizes = {
    {"output_size", ParameterType::integers, "", "size of the output, one number or three"}};

const LayerDef kLayers[] = {
    {.name = "MaxPool3d",
     .summary = "maximum of each window of a volume",
     .math =
         "x [N, C, D, H, W] -> y [N, C, O, P, Q], sizes as MaxPool2d. Saved: x and the int64 index of each maximum.",
     .parameters = kWindows,
     .lower = lower_windows<kMax>,
     .example = {.call = "MaxPool3d(2)",
                 .input_shapes = {{2, 4, 8, 8, 8}},
                 .output_shape = {2, 4, 4, 4, 4},
                 .saved_bytes = 20'480,
                 .derivation = "x is 2*4*8*8*8*4 bytes, the indices 2*4*4*4*4*8"}},
    {.name = "AvgPool3d",
     .summary = "mean of each window of a volume",
     .math = "x [N, C, D, H, W] -> y [N, C, O, P, Q], sizes as MaxPool3d. Saved: x, though only its sizes are read.",
     .parameters = kWindows,
     .lower = lower_windows<kMean>,
     .example = {.call = "AvgPool3d(2)",
                 .input_shapes = {{2, 4, 8, 8, 8}},
                 .output_shape = {2, 4, 4, 4, 4},
                 .saved_bytes = 16'384,
                 .derivation = "x is 2*4*8*8*8*4 bytes"}},
    {.name = "AdaptiveAvgPool3d",
     .summary = "mean of each window of a volume, for a given output size",
     .math = "x [N, C, D, H, W] -> y [N, C, O, P, Q]. 1 is a mean and saves nothing; other sizes save x.",
     .parameters = kSizes,
     .lower = lower_adaptive<kAdaptiveMean>,
     .example = {.call = "AdaptiveAvgPool3d(4)",
                 .input_shapes = {{2, 4, 8, 8, 8}},
                 .output_shape = {2, 4, 4, 4, 4},
                 .saved_bytes = 16'384,
                 .derivation = "x is 2*4*8*8*8*4 bytes"}},
    {.name = "AdaptiveMaxPool3d",
     .summary = "largest element of each window of a volume, for a given output size",
     .math = "x [N, C, D, H, W] -> y [N, C, O, P, Q]. Saved: x and the int64 index of each maximum.",
     .parameters = kSizes,
     .lower = lower_adaptive<kAdaptiveMax>,
     .example = {.call = "AdaptiveMaxPool3d(4)",
                 .input_shapes = {{2, 4, 8, 8, 8}},
                 .output_shape = {2, 4, 4, 4, 4},
                 .saved_bytes = 20'480,
                 .derivation = "x is 2*4*8*8*8*4 bytes, the indices 2*4*4*4*4*8"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::pooling_3d
