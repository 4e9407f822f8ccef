// UnfoldDimension, Unfold, Fold: windows of a tensor.
//
// tensor.unfold(dim, size, step) is a view with overlaps; its gradient is added into zeros of the whole size by the
// positions 0, 1, ... of the dimension, a tensor of its own (aten/src/ATen/native/UnfoldBackward.cpp). F.unfold and
// F.fold are im2col and col2im: both begin with a result as large as their input, which im2col then lets grow and
// col2im keeps, though it holds less (aten/src/ATen/native/cuda/Im2Col.cu, Col2Im.cu: at::empty_like, then resize_).
// Each is the other's backward; both copy an operand that is not contiguous first.

#include <array>
#include <string>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::windows {
namespace {

void lower_unfold_dimension(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const int dim = wrap_dimension(b, "dimension", b.integer("dimension"), in.rank());
  const std::int64_t size = b.size("size"), step = b.size("step");
  if (size > in[dim])
    b.fail("size",
           "windows of " + std::to_string(size) + " in dimension " + std::to_string(dim) + " of " + to_string(in));
  if (in.rank() >= Shape::kMaxRank) b.fail("has too many dimensions for another one");
  Shape out = in;
  Strides strides = b.strides(x);
  out.set(dim, (in[dim] - size) / step + 1);
  out.push_back(size);
  strides.set(in.rank(), strides[dim]);
  strides.set(dim, checked_mul(step, strides[dim]));
  const TensorId y = b.alias(x, out, strides);
  if (NodeBuilder node = b.node("UnfoldBackward0", y, {x})) {
    const Operand dx = node.run(Operator::zeros, Fill{in.elements()}, {}, in, b.dtype(x));
    ScratchProgram indices;
    ScratchWriter(indices).use(checked_mul(in[dim], size_of(DType::int64)));
    node.run_in_place(Operator::unfold_backward, aten::opaque_kernel(indices, out.elements()), {dx, node.grad()});
    node.give(x, dx);
  }
  b.output(y);
}

// An image [N, C, H, W] and its columns [N, C R S, windows].
struct Columns {
  Shape image, columns;
};

Columns sizes_of(const LayerBuilder& b, const Shape& image) {
  const Pair kernel = b.pair("kernel_size"), dilation = b.pair("dilation"), padding = b.pair("padding"),
             stride = b.pair("stride");
  const auto windows = [&](std::int64_t in, std::int64_t k, std::int64_t d, std::int64_t p, std::int64_t s) {
    if (k < 1 || d < 1 || p < 0 || s < 1) b.fail("kernel_size", "sizes must be at least 1, padding at least 0");
    const std::int64_t free = in + 2 * p - d * (k - 1) - 1;
    if (free < 0) b.fail("kernel_size", "no window fits into " + to_string(image));
    return free / s + 1;
  };
  const std::int64_t p = windows(image[2], kernel.h, dilation.h, padding.h, stride.h);
  const std::int64_t q = windows(image[3], kernel.w, dilation.w, padding.w, stride.w);
  return {image, {image[0], checked_mul(image[1], checked_mul(kernel.h, kernel.w)), checked_mul(p, q)}};
}

std::int64_t bytes_of(const Shape& shape, DType dtype) { return checked_mul(shape.elements(), size_of(dtype)); }

// im2col: a tensor of the operand's size, the operand's copy, then the result in place of the first.
OpaqueKernel im2col(const Columns& c, DType dtype, bool contiguous) {
  ScratchProgram program;
  ScratchWriter w(program);
  const std::int64_t first = w.allocate(bytes_of(c.image, dtype));
  if (!contiguous) w.allocate(bytes_of(c.image, dtype));
  w.result();
  w.release(first);
  w.release_all();
  return aten::opaque_kernel(program);
}

void lower_unfold(LayerBuilder& b) {
  b.expect_rank(4, "[N, C, H, W]");
  const TensorId x = b.input();
  const DType dtype = b.dtype(x);
  const Columns c = sizes_of(b, b.shape(x));
  const TensorId y = b.emit(Operator::im2col, im2col(c, dtype, b.contiguous(x)), {x}, c.columns, dtype);
  if (NodeBuilder node = b.node("Im2ColBackward0", y, {x})) {
    const OutputSpec dx{c.image, dtype, Placing::contiguous, {}, bytes_of(c.columns, dtype)};
    node.give(x, node.run(Operator::col2im, Copy{c.columns.elements()}, {node.contiguous(node.grad())}, dx));
  }
  b.output(y);
}

void lower_fold(LayerBuilder& b) {
  b.expect_rank(3, "[N, C R S, windows]");
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const Pair size = b.pair("output_size"), kernel = b.pair("kernel_size");
  const std::int64_t taps = checked_mul(kernel.h, kernel.w);
  if (taps < 1 || in[1] % taps != 0)
    b.fail("kernel_size", std::to_string(in[1]) + " rows are not a multiple of a window's " + std::to_string(taps));
  const Columns c = sizes_of(b, {in[0], in[1] / taps, size.h, size.w});
  if (!(c.columns == in)) b.fail("output_size", "folds " + to_string(c.columns) + ", the input is " + to_string(in));
  const std::int64_t held = bytes_of(in, dtype);
  const OpaqueKernel work = aten::result_with_temporary(b.contiguous(x) ? 0 : held, in.elements());
  const TensorId y = b.emit(Operator::col2im, work, {x}, {c.image, dtype, Placing::contiguous, {}, held});
  if (NodeBuilder node = b.node("Col2ImBackward0", y, {x})) {
    // The gradient is copied, where it has to be, after the tensor of its size.
    const Operand first = node.run(Operator::empty_like, Marker{}, {}, {c.image, dtype});
    const Operand dy = node.contiguous(node.grad());
    const Operand dx = node.run(Operator::im2col, Copy{in.elements()}, {dy}, in, dtype);
    node.hold({first});
    node.give(x, dx);
  }
  b.output(y);
}

const ParameterDef kKernel{"kernel_size", ParameterType::pair, "", "size of the window"};
const ParameterDef kDilation{"dilation", ParameterType::pair, "1", "step between the elements of a window"};
const ParameterDef kPadding{"padding", ParameterType::pair, "0", "zeros on each side of the image"};
const ParameterDef kStride{"stride", ParameterType::pair, "1", "step between windows"};

const LayerDef kLayers[] = {
    {.name = "UnfoldDimension",
     .summary = "tensor.unfold: overlapping windows of a dimension",
     .math = "x [..., n, ...] -> [..., (n - size) / step + 1, ..., size], a view. Backward: zeros of x's size, added "
             "into,\nand the n positions in int64 for a moment.",
     .parameters = {{"dimension", ParameterType::integer, "", "the dimension"},
                    {"size", ParameterType::size, "", "elements of a window"},
                    {"step", ParameterType::size, "", "elements from one window to the next"}},
     .lower = lower_unfold_dimension,
     .example = {.call = "UnfoldDimension(2, 6, 4)",
                 .input_shapes = {{4, 8, 14, 10}},
                 .output_shape = {4, 8, 3, 10, 6},
                 .derivation = "(14 - 6) / 4 + 1 windows; a view"}},
    {.name = "Unfold",
     .summary = "F.unfold: the windows of an image as columns",
     .math =
         "x [N, C, H, W] -> [N, C R S, windows]. Saved: nothing. Beside its result a tensor of x's size for a moment;\n"
         "the gradient's storage is as large as the result.",
     .parameters = {kKernel, kDilation, kPadding, kStride},
     .lower = lower_unfold,
     .example = {.call = "Unfold(3, padding=1)",
                 .input_shapes = {{4, 8, 14, 10}},
                 .output_shape = {4, 72, 140},
                 .derivation = "8*3*3 rows, 14*10 windows; only sizes are saved"}},
    {.name = "Fold",
     .summary = "F.fold: an image of the sums of windows",
     .math = "x [N, C R S, windows] -> [N, C, H, W], in a storage as large as x. Saved: nothing.",
     .parameters =
         {{"output_size", ParameterType::pair, "", "size of the image"}, kKernel, kDilation, kPadding, kStride},
     .lower = lower_fold,
     .example = {.call = "Fold([14, 10], 3, padding=1)",
                 .input_shapes = {{4, 72, 140}},
                 .output_shape = {4, 8, 14, 10},
                 .derivation = "72 / (3*3) channels; only sizes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::windows
