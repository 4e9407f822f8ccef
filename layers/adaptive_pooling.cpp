// AdaptiveAvgPool2d, AdaptiveMaxPool2d and those of sequences: the mean, or the largest element, of each of output_size
// windows. A sequence is an image of one row (aten/src/ATen/native/Pooling.cpp).
//
// The maximum saves the input and the int64 index of each element; its backward copies a gradient that is not
// contiguous once its own is there (aten/src/ATen/native/cuda/AdaptiveMaxPooling2d.cu). Of the mean: An output of 1 x 1
// is mean over the last two dimensions (aten/src/ATen/native/AdaptiveAveragePooling.cpp), which saves only sizes;
// before 2.0 mean.dim saved its input. Of a channels-last input it is then given channels-last strides by as_strided_,
// a node of its own, whose backward copies the gradient into zeros. Any other size saves the input, has a kernel of its
// own and gives its results in the memory format that the input suggests, of a contiguous copy where that is contiguous
// and the input is not.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/windows.h"

namespace gpuplan::layers::adaptive_pooling {
namespace {

TensorId mean_of_all(LayerBuilder& b, TensorId x, const Shape& out) {
  const TensorId mean = aten::reduce(b, x, 0b1100U, true, true);
  if (b.suggested_format(x) == MemoryFormat::contiguous || b.before(200)) return mean;
  const TensorId y = b.alias(mean, out, strides_in(MemoryFormat::channels_last, out));
  if (NodeBuilder node = b.node("AsStridedBackward1", y, {mean})) {
    const Operand base = node.run(Operator::new_zeros, Fill{out.elements()}, {}, out, b.dtype(x));
    node.run_in_place(Operator::copy_, Copy{out.elements()}, {base, node.grad()});
    node.give(mean, base);
  }
  return y;
}

Shape output_of(const LayerBuilder& b, const Shape& in, aten::Over over) {
  Pair size = b.pair("output_size");
  if (over == aten::Over::rows) size = {1, size.h};
  if (size.h < 1 || size.w < 1) b.fail("output_size", "\"output_size\" must be at least 1", "expected sizes >= 1");
  return {in[0], in[1], size.h, size.w};
}

TensorId mean(LayerBuilder& b, TensorId x, aten::Over over) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const Shape out = output_of(b, in, over);
  if (out[2] == 1 && out[3] == 1) return mean_of_all(b, x, out);
  // Windows overlap where the sizes do not divide; on average each input element is read about once.
  const Pooling work{in.elements(), 1};
  const MemoryFormat format = b.suggested_format(x);
  const bool copied = format == MemoryFormat::contiguous && !b.contiguous(x) && b.run().scratch != Scratch::none;
  const TensorId rows =
      copied ? b.emit(Operator::clone, Copy{in.elements()}, {x}, {in, dtype, Placing::contiguous}) : x;
  const TensorId y =
      b.emit(Operator::_adaptive_avg_pool2d, work, {rows}, {out, dtype, Placing::given, strides_in(format, out)});
  if (NodeBuilder node = b.node("AdaptiveAvgPool2DBackward0", y, {x}))
    node.give(x, node.run(Operator::_adaptive_avg_pool2d_backward, work, {node.grad(), x},
                          {in, dtype, Placing::given, strides_in(format, in)}));
  return y;
}

TensorId largest(LayerBuilder& b, TensorId x, aten::Over over) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const Shape out = output_of(b, in, over);
  if (!b.contiguous(x)) b.fail("expects a contiguous input");
  const OutputSpec results[] = {{out, dtype, Placing::contiguous}, {out, DType::int64, Placing::contiguous}};
  const std::vector<TensorId> made =
      b.emit_many(Operator::adaptive_max_pool2d, Pooling{in.elements(), 1}, {x}, results);
  if (NodeBuilder node = b.node("AdaptiveMaxPool2DBackward0", made[0], {x})) {
    node.save(x);
    const Operand dx = node.run(Operator::adaptive_max_pool2d_backward, Pooling{out.elements(), 1},
                                {node.grad(), x, made[1]}, {in, dtype, Placing::contiguous});
    (void)node.contiguous(node.grad());
    node.give(x, dx);
  }
  return made[0];
}

const ParameterDef kOutputSize{"output_size", ParameterType::pair, "", "size of the output, one number for both"};
const ParameterDef kOutputLength{"output_size", ParameterType::pair, "", "length of the output"};

const LayerDef kLayers[] = {
    {.name = "AdaptiveAvgPool2d",
     .summary = "mean of each window, for a given output size",
     .math =
         "x [N, C, H, W] -> y [N, C, P, Q]. 1 x 1 is mean(-1, -2) and saves nothing (before 2.0: x); other sizes save "
         "x.",
     .parameters = {kOutputSize},
     .lower = aten::over_images<mean>,
     .example = {.call = "AdaptiveAvgPool2d(7)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 7, 7},
                 .saved_bytes = 25'088,
                 .derivation = "x is 4*8*14*14*4 bytes"}},
    {.name = "AdaptiveMaxPool2d",
     .summary = "largest element of each window, for a given output size",
     .math = "x [N, C, H, W] -> y [N, C, P, Q]. Saved: x and the int64 index of each maximum.",
     .parameters = {kOutputSize},
     .lower = aten::over_images<largest>,
     .example = {.call = "AdaptiveMaxPool2d(7)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 7, 7},
                 .saved_bytes = 37'632,
                 .derivation = "x is 4*8*14*14*4 bytes, the indices 4*8*7*7*8"}},
    {.name = "AdaptiveAvgPool1d",
     .summary = "mean of each window of a sequence, for a given output length",
     .math = "x [N, C, L] -> y [N, C, P]. A length of 1 is a mean and saves nothing (before 2.0: x); others save x.",
     .parameters = {kOutputLength},
     .lower = aten::over_rows<mean>,
     .example = {.call = "AdaptiveAvgPool1d(7)",
                 .input_shapes = {{4, 8, 196}},
                 .output_shape = {4, 8, 7},
                 .saved_bytes = 25'088,
                 .derivation = "x is 4*8*196*4 bytes"}},
    {.name = "AdaptiveMaxPool1d",
     .summary = "largest element of each window of a sequence, for a given output length",
     .math = "x [N, C, L] -> y [N, C, P]. Saved: x and the int64 index of each maximum.",
     .parameters = {kOutputLength},
     .lower = aten::over_rows<largest>,
     .example = {.call = "AdaptiveMaxPool1d(7)",
                 .input_shapes = {{4, 8, 196}},
                 .output_shape = {4, 8, 7},
                 .saved_bytes = 26'880,
                 .derivation = "x is 4*8*196*4 bytes, the indices 4*8*7*8"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::adaptive_pooling
