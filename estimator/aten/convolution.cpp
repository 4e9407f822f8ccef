#include "estimator/aten/convolution.h"

#include "estimator/base/integers.h"
#include "estimator/operators/cudnn_query.h"
#include "estimator/operators/slow_convolution.h"

namespace gpuplan::aten {
namespace {

// ConvShared's cudnn_conv_suggest_memory_format: channels-last as soon as input or weight is, but not in fp64.
// Sequences are made contiguous before they are viewed as images of one row.
MemoryFormat kernel_format(const LayerBuilder& b, const ConvolutionOperands& of) {
  if (b.shape(of.input).rank() != 4 || b.dtype(of.input) == DType::fp64) return MemoryFormat::contiguous;
  for (const TensorId t : {of.input, of.weight})
    if (b.suggested_format(t) == MemoryFormat::channels_last) return MemoryFormat::channels_last;
  return MemoryFormat::contiguous;
}

bool lies_in(const LayerBuilder& b, TensorId t, MemoryFormat format) {
  return format == MemoryFormat::contiguous ? b.contiguous(t) : is_channels_last(b.shape(t), b.strides(t));
}

Placing placing_of(MemoryFormat format) {
  return format == MemoryFormat::channels_last ? Placing::channels_last : Placing::contiguous;
}

Convolution with_kernel(const LayerBuilder& b, Convolution c, const ConvolutionOperands& of) {
  const bool transposed = c.pass == ConvolutionPass::backward_data;
  c.dtype = b.dtype(of.input);
  c.channels_last = kernel_format(b, of) == MemoryFormat::channels_last;
  const bool cudnn = cudnn_convolves(c.dtype, b.gpu());
  c.native = !transposed && runs_native_depthwise(cudnn_query(c), b.gpu());
  c.im2col = !cudnn && !transposed && c.groups == 1;
  c.makes_columns = c.im2col && (c.r * c.s > 1 || c.stride_h * c.stride_w > 1 || c.pad_h + c.pad_w > 0);
  if (c.native || c.im2col) c.channels_last = false;
  return c;
}

// The kernels of one call's backward, and what they have computed.
struct Backward {
  NodeBuilder& node;
  const LayerBuilder& b;
  Convolution conv;
  ConvolutionOperands of;
  MemoryFormat format;        // of dX
  MemoryFormat image_format;  // of the input as dW is given it, and so of dW
  bool transposed;
  Operand dy, image, columns;
  Operand dx = 0, dw = 0, db = 0;

  // cudnn_convolution_backward_input: a copy of the gradient comes after the result.
  void data() {
    if (!node.needs(of.input)) return;
    Convolution c = conv;
    c.pass = transposed ? ConvolutionPass::forward : ConvolutionPass::backward_data;
    dx = node.run(Operator::convolution_backward, c, {dy, of.weight},
                  {b.shape(of.input), conv.dtype, placing_of(format)});
    if (!transposed) (void)node.contiguous(dy, format);
  }
  // cudnn_convolution_backward_weight: before it.
  void filter() {
    if (!node.needs(of.weight)) return;
    Convolution c = conv;
    c.pass = ConvolutionPass::backward_filter;
    c.weight_copy_bytes = 0;
    const Operand g = transposed ? dy : node.contiguous(dy, image_format);
    dw = node.run(Operator::convolution_backward, c, {g, image, columns},
                  {b.shape(of.weight), conv.dtype, placing_of(image_format)});
    node.attributes({{Attribute::transposed, transposed}});
  }
  // Of the gradient as it arrived, whatever was copied for the kernels.
  void bias() {
    if (!node.needs(of.bias)) return;
    const Shape out = node.shape(node.grad());
    const unsigned all_but_channels = out.rank() == 3 ? 0b101U : 0b1101U;
    db = node.run(Operator::sum, Reduction{out, all_but_channels, conv.dtype, conv.dtype}, {node.grad()},
                  b.shape(of.bias), conv.dtype);
    node.attributes({{Attribute::dims, all_but_channels}});
  }
};

// The gradient as cuDNN's wrappers see it: a sequence is an image of one row (view1d_as_2d), which may lie
// channels-last.
Operand as_image(NodeBuilder& node) {
  const Shape shape = node.shape(node.grad());
  return shape.rank() == 3 ? node.reshape(node.grad(), {shape[0], shape[1], 1, shape[2]}) : node.grad();
}

// ConvolutionBackward0: dX, dW, then db; the depthwise kernel dW first; slow_conv2d dX, its columns, db, dW.
void backward(NodeBuilder& node, const LayerBuilder& b, Convolution conv, const ConvolutionOperands& of,
              bool transposed) {
  node.save(of.input);
  node.save(of.weight);
  const MemoryFormat format = conv.channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  conv.input_copy_bytes = 0;
  conv.makes_columns = false;
  const bool copies = node.needs(of.weight) && !lies_in(b, of.input, format);
  const MemoryFormat image_format = copies ? format : b.suggested_format(of.input);
  const bool exact = transposed || conv.native || conv.im2col;
  Operand image = of.input, dy = node.grad();
  if (exact) dy = node.contiguous(dy, format);
  if (copies)
    image = node.run(Operator::contiguous, Copy{b.elements(of.input)}, {of.input},
                     {b.shape(of.input), conv.dtype, placing_of(format)});
  // cudnn_convolution_backward, which is given that: grad_output.to(input.suggest_memory_format()).
  if (!exact) dy = node.to_format(as_image(node), image_format);
  Backward run{node, b, conv, of, format, image_format, transposed, dy, image, dy};
  if (conv.im2col) {
    run.data();
    const Shape shape{conv.c * conv.r * conv.s, conv.p * conv.q};
    run.columns = node.run(Operator::im2col, Copy{shape.elements()}, {image}, shape, conv.dtype);
    run.bias();
    run.filter();
  } else {
    if (conv.native) run.filter();
    run.data();
    if (!conv.native) run.filter();
    run.bias();
  }
  if (node.needs(of.input)) node.give(of.input, run.dx);
  if (node.needs(of.weight)) node.give(of.weight, run.dw);
  if (node.needs(of.bias)) node.give(of.bias, run.db);
}

}  // namespace

ConvolutionOperands cached_cast(LayerBuilder& b, ConvolutionOperands of) {
  of.bias = b.cached_cast(of.bias);
  of.weight = b.cached_cast(of.weight);
  of.input = b.cached_cast(of.input);
  return of;
}

TensorId convolution(LayerBuilder& b, const Convolution& geometry, const ConvolutionOperands& of, const Shape& out) {
  const bool transposed = geometry.pass == ConvolutionPass::backward_data;
  Convolution conv = with_kernel(b, geometry, of);
  const MemoryFormat format = conv.channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  const auto bytes = [&](TensorId t) { return checked_mul(b.elements(t), size_of(conv.dtype)); };
  // The kernel is given copies; the originals are what is saved.
  if (!lies_in(b, of.input, format)) conv.input_copy_bytes = bytes(of.input);
  if (!lies_in(b, of.weight, format)) conv.weight_copy_bytes = bytes(of.weight);
  TensorId y = b.emit(conv.native ? Operator::_conv_depthwise2d : Operator::convolution, conv, {of.input, of.weight},
                      {out, conv.dtype, placing_of(format)});
  if (of.bias != kNone) {
    Shape channels;  // reshape_bias: [1, channels, 1, 1]
    for (int i = 0; i < out.rank(); ++i) channels.push_back(i == 1 ? out[1] : 1);
    const TensorId bias = b.alias(of.bias, channels, contiguous_strides(channels));
    y = b.emit_in_place(Operator::add_, Elementwise{out.elements()}, {y, bias});
  }
  if (NodeBuilder node = b.node("ConvolutionBackward0", y, {of.input, of.weight, of.bias}))
    backward(node, b, conv, of, transposed);
  return y;
}

}  // namespace gpuplan::aten
