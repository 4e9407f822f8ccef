// MaxPool2d, AvgPool2d, MaxPool1d, AvgPool1d: windows of kernel_size every `stride` elements. A sequence is an image of
// one row (aten/src/ATen/native/Pooling.cpp, max_pool1d_with_indices and avg_pool1d).
//
// max_pool2d allocates its result and int64 indices, without a gradient too, and saves input and indices; avg_pool2d
// saves its input, of which it only reads the sizes (derivatives.yaml). Results are in the memory format that the input
// suggests; one that does not lie densely in it, as a part of a tensor, is copied, in backward again. Each backward
// allocates one gradient, then copies an incoming one that lies in another format
// (aten/src/ATen/native/cuda/DilatedMaxPool2d.cu, AveragePool2d.cu).

#include "estimator/aten/windows.h"

namespace gpuplan::layers::pooling {
namespace {

struct Windows {
  Pair kernel, stride, padding, dilation;
  Shape out;
  std::int64_t taps() const { return kernel.h * kernel.w; }
  std::vector<AttributeValue> attributes() const {
    return {{Attribute::kernel_h, kernel.h}, {Attribute::kernel_w, kernel.w},   {Attribute::stride_h, stride.h},
            {Attribute::stride_w, stride.w}, {Attribute::padding_h, padding.h}, {Attribute::padding_w, padding.w}};
  }
};

// aten/src/ATen/native/Pool.h, pooling_output_shape: with ceil_mode the last window starts inside the input or its
// left padding.
std::int64_t output_size(const LayerBuilder& b, std::int64_t in, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation, bool ceil_mode) {
  const std::int64_t reach = aten::reach(kernel, dilation);
  if (padding > reach / 2)
    b.fail("padding",
           "padding " + std::to_string(padding) + " is more than half of the window's " + std::to_string(reach) +
               " positions",
           "expected at most " + std::to_string(reach / 2));
  std::int64_t out = aten::positions(b, "window", in + 2 * padding, reach, stride, ceil_mode);
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  return out;
}

Windows windows(const LayerBuilder& b, const Shape& in, aten::Over over, bool dilated) {
  const bool one_d = over == aten::Over::rows;
  Windows w;
  w.kernel = aten::pair_at_least(b, "kernel_size", 1, one_d);
  w.stride = b.is_none("stride") ? w.kernel : aten::pair_at_least(b, "stride", 1, one_d);
  w.padding = aten::pair_at_least(b, "padding", 0, one_d);
  w.dilation = dilated ? aten::pair_at_least(b, "dilation", 1, one_d) : Pair{1, 1};
  const bool ceil_mode = b.boolean("ceil_mode");
  w.out = in;
  w.out.set(2, output_size(b, in[2], w.kernel.h, w.stride.h, w.padding.h, w.dilation.h, ceil_mode));
  w.out.set(3, output_size(b, in[3], w.kernel.w, w.stride.w, w.padding.w, w.dilation.w, ceil_mode));
  return w;
}

bool is_copied(const LayerBuilder& b, TensorId x, MemoryFormat format) {
  return format == MemoryFormat::channels_last ? !is_channels_last(b.shape(x), b.strides(x)) : !b.contiguous(x);
}

OutputSpec lying_in(MemoryFormat format, const Shape& shape, DType dtype) {
  return {shape, dtype, Placing::given, strides_in(format, shape)};
}

TensorId largest(LayerBuilder& b, TensorId x, aten::Over over) {
  if (b.boolean("return_indices")) b.fail("return_indices", "return_indices is not supported", "expected False");
  const Shape in = b.shape(x);
  const Windows w = windows(b, in, over, true);
  const DType dtype = b.dtype(x);
  const MemoryFormat format = b.suggested_format(x);
  const Strides strides = strides_in(format, w.out);
  const OutputSpec results[] = {{w.out, dtype, Placing::given, strides},
                                {w.out, DType::int64, Placing::given, strides}};
  const std::vector<TensorId> y_and_indices =
      b.emit_many(Operator::max_pool2d_with_indices, Pooling{w.out.elements(), w.taps()}, {x}, results);
  std::vector<AttributeValue> window = w.attributes();
  window.insert(window.end(), {{Attribute::dilation_h, w.dilation.h}, {Attribute::dilation_w, w.dilation.w}});
  b.attributes(window);
  const TensorId y = y_and_indices[0];
  const bool copied = is_copied(b, x, format);
  if (copied) {
    (void)b.emit(Operator::clone, Copy{in.elements()}, {x}, lying_in(format, in, dtype));
    b.hold({y_and_indices[1]});
  }
  if (NodeBuilder node = b.node("MaxPool2DWithIndicesBackward0", y, {x})) {
    const Operand dx =
        node.run(Operator::max_pool2d_with_indices_backward, Pooling{w.out.elements(), 1},
                 {node.grad(), x, y_and_indices[1]}, {in, dtype, Placing::given, strides_in(format, in)});
    node.attributes(window);
    if (copied) (void)node.run(Operator::clone, Copy{in.elements()}, {x}, lying_in(format, in, dtype));
    (void)node.contiguous(node.grad(), format);
    node.give(x, dx);
  }
  return y;
}

TensorId mean(LayerBuilder& b, TensorId x, aten::Over over) {
  const Shape in = b.shape(x);
  const Windows w = windows(b, in, over, false);
  if (over == aten::Over::images && b.given("divisor_override") && b.integer("divisor_override") == 0)
    b.fail("divisor_override", "divisor_override must not be zero", "expected a divisor");
  std::vector<AttributeValue> window = w.attributes();
  window.emplace_back(Attribute::count_include_pad, b.boolean("count_include_pad"));
  const bool divides = over == aten::Over::images && b.given("divisor_override");
  window.emplace_back(Attribute::divisor_override, divides ? b.integer("divisor_override") : 0);
  const DType dtype = b.dtype(x);
  const Pooling work{w.out.elements(), w.taps()};
  const MemoryFormat format = b.suggested_format(x);
  const TensorId y = b.emit(Operator::avg_pool2d, work, {x}, {w.out, dtype, Placing::given, strides_in(format, w.out)});
  b.attributes(window);
  const bool copied = is_copied(b, x, format);
  if (copied) (void)b.emit(Operator::clone, Copy{in.elements()}, {x}, lying_in(format, in, dtype));
  if (NodeBuilder node = b.node("AvgPool2DBackward0", y, {x})) {
    const Operand dx = node.run(Operator::avg_pool2d_backward, work, {node.grad(), x},
                                {in, dtype, Placing::given, strides_in(format, in)});
    node.attributes(window);
    if (copied) (void)node.run(Operator::clone, Copy{in.elements()}, {x}, lying_in(format, in, dtype));
    (void)node.contiguous(node.grad(), format);
    node.give(x, dx);
  }
  return y;
}

const ParameterDef kKernel{"kernel_size", ParameterType::pair, "", "size of the window"};
const ParameterDef kStride{"stride", ParameterType::pair, "None", "step between windows; None: kernel_size"};
const ParameterDef kPadding{"padding", ParameterType::pair, "0", "padding on each side, at most half the window"};
const ParameterDef kDilation{"dilation", ParameterType::pair, "1", "step between the elements of a window"};
const ParameterDef kIndices{"return_indices", ParameterType::boolean, "False", "not supported: False"};
const ParameterDef kCeilMode{"ceil_mode", ParameterType::boolean, "False", "rounds the output size up"};
const ParameterDef kCountPad{"count_include_pad", ParameterType::boolean, "True", "counts the padding in the mean"};

const LayerDef kLayers[] = {
    {.name = "MaxPool2d",
     .summary = "maximum of each window",
     .math = "x [N, C, H, W] -> y [N, C, P, Q]; P = floor((H + 2 pad - dilation (R - 1) - 1) / stride) + 1, or ceil.\n"
             "Saved: x and the int64 index of each maximum, 8 bytes an output element.",
     .parameters = {kKernel, kStride, kPadding, kDilation, kIndices, kCeilMode},
     .lower = aten::over_images<largest>,
     .example = {.call = "MaxPool2d(2)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 7, 7},
                 .saved_bytes = 37'632,
                 .derivation = "x is 4*8*14*14*4 bytes, the indices 4*8*7*7*8"}},
    {.name = "AvgPool2d",
     .summary = "mean of each window",
     .math =
         "x [N, C, H, W] -> y [N, C, P, Q], sizes as MaxPool2d without dilation. Saved: x, though only its sizes are "
         "read.",
     .parameters = {kKernel,
                    kStride,
                    kPadding,
                    kCeilMode,
                    kCountPad,
                    {"divisor_override", ParameterType::integer, "None",
                     "divides by this instead of the window's size"}},
     .lower = aten::over_images<mean>,
     .example = {.call = "AvgPool2d(2)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 7, 7},
                 .saved_bytes = 25'088,
                 .derivation = "x is 4*8*14*14*4 bytes"}},
    {.name = "MaxPool1d",
     .summary = "maximum of each window of a sequence",
     .math = "x [N, C, L] -> y [N, C, P], sizes as MaxPool2d of an image of one row. Saved: x and the int64 index of "
             "each maximum.",
     .parameters = {kKernel, kStride, kPadding, kDilation, kIndices, kCeilMode},
     .lower = aten::over_rows<largest>,
     .example = {.call = "MaxPool1d(2)",
                 .input_shapes = {{4, 8, 196}},
                 .output_shape = {4, 8, 98},
                 .saved_bytes = 50'176,
                 .derivation = "x is 4*8*196*4 bytes, the indices 4*8*98*8"}},
    {.name = "AvgPool1d",
     .summary = "mean of each window of a sequence",
     .math =
         "x [N, C, L] -> y [N, C, P], sizes as MaxPool1d without dilation. Saved: x, though only its sizes are read.",
     .parameters = {kKernel, kStride, kPadding, kCeilMode, kCountPad},
     .lower = aten::over_rows<mean>,
     .example = {.call = "AvgPool1d(2)",
                 .input_shapes = {{4, 8, 196}},
                 .output_shape = {4, 8, 98},
                 .saved_bytes = 25'088,
                 .derivation = "x is 4*8*196*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::pooling
