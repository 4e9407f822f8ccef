// Softmax, LogSoftmax over one dimension.
//
// Both save their result (derivatives.yaml, _softmax and _log_softmax). softmax's backward keeps grad * output while it
// computes the gradient, log_softmax's does not (aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out).

#include "estimator/graph/dimensions.h"

namespace gpuplan::layers {
namespace {

// Without a dimension torch takes 0 for 0, 1 and 3 dimensions, else 1 (torch/nn/functional.py, _get_softmax_dim).
int dimension(const LayerBuilder& b, int rank) {
  if (b.is_none("dim")) return rank == 0 || rank == 1 || rank == 3 ? 0 : 1;
  return wrap_dimension(b, "dim", b.integer("dim"), rank);
}

void lower(LayerBuilder& b, bool log) {
  const TensorId x = b.input();
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  (void)dimension(b, shape.rank());
  const TensorId y = b.emit(log ? "aten::_log_softmax" : "aten::_softmax",
                            Softmax{.elements = shape.elements(), .dtype = dtype}, {x}, shape, dtype);
  if (NodeBuilder node = b.node(log ? "LogSoftmaxBackward0" : "SoftmaxBackward0", y, {x})) {
    const Softmax backward{.elements = shape.elements(), .backward = true, .product_scratch = !log, .dtype = dtype};
    node.give(x, node.run(log ? "aten::_log_softmax_backward_data" : "aten::_softmax_backward_data", backward,
                          {node.grad(), y}, shape, dtype));
  }
  b.output(y);
}

void lower_softmax(LayerBuilder& b) { lower(b, false); }
void lower_log_softmax(LayerBuilder& b) { lower(b, true); }

const std::vector<ParameterDef> kParameters = {
    {"dim", ParameterType::integer, "None", "dimension whose elements add up to 1"}};

const LayerDef kSoftmax{
    .name = "Softmax",
    .summary = "e^x scaled to a sum of 1 over a dimension",
    .math = "y = e^x / sum e^x. Saved: y. Backward: one gradient, and grad * y while it is computed.",
    .parameters = kParameters,
    .lower = lower_softmax,
    .example = {.call = "Softmax(dim=1)",
                .input_shapes = {{4, 8, 14, 14}},
                .output_shape = {4, 8, 14, 14},
                .saved_bytes = 25'088,
                .derivation = "the result, 4*8*14*14*4 bytes, is saved"},
};

const LayerDef kLogSoftmax{
    .name = "LogSoftmax",
    .summary = "logarithm of softmax",
    .math = "y = x - log sum e^x. Saved: y. Backward: one gradient.",
    .parameters = kParameters,
    .lower = lower_log_softmax,
    .example = {.call = "LogSoftmax(dim=-1)",
                .input_shapes = {{4, 8, 14, 14}},
                .output_shape = {4, 8, 14, 14},
                .saved_bytes = 25'088,
                .derivation = "the result, 4*8*14*14*4 bytes, is saved"},
};

const LayerDef* const kLayers[] = {&kSoftmax, &kLogSoftmax};

}  // namespace

std::span<const LayerDef* const> softmax_layers() { return kLayers; }

}  // namespace gpuplan::layers
