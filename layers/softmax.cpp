// Softmax, LogSoftmax over one dimension.
//
// Both save their result (derivatives.yaml, _softmax and _log_softmax). softmax's backward keeps grad * output while it
// computes the gradient, log_softmax's does not (aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out).
// Under autocast they compute in fp32. A dtype is what F.softmax and F.log_softmax take.

#include "estimator/aten/softmax.h"

#include "estimator/aten/cross_entropy.h"
#include "estimator/graph/dimensions.h"
#include "estimator/graph/dtype_argument.h"

namespace gpuplan::layers::softmax {
namespace {

// Without a dimension torch takes 0 for 0, 1 and 3 dimensions, else 1 (torch/nn/functional.py, _get_softmax_dim).
int dimension(const LayerBuilder& b, int rank) {
  if (b.is_none("dim")) return rank == 0 || rank == 1 || rank == 3 ? 0 : 1;
  return wrap_dimension(b, "dim", b.integer("dim"), rank);
}

std::optional<DType> result_type(const LayerBuilder& b) {
  const std::optional<DType> dtype = named_dtype(b);
  if (dtype && !is_floating(*dtype))
    b.fail("dtype", "\"" + std::string(b.word("dtype")) + "\" is not a floating type",
           "expected float32, float16, ...");
  return dtype;
}

void lower_softmax(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::softmax(b, x, dimension(b, b.shape(x).rank()), result_type(b)));
}

void lower_log_softmax(LayerBuilder& b) {
  const TensorId x = b.input();
  const int dim = dimension(b, b.shape(x).rank());
  const std::optional<DType> to = result_type(b);
  b.output(aten::log_softmax(b, to ? x : b.autocast_fp32(x), dim, to));
}

const std::vector<ParameterDef> kParameters = {
    {"dim", ParameterType::integer, "None", "dimension whose elements add up to 1"},
    {"dtype", ParameterType::word, "None", "type that it is computed and returned in; None: the input's"}};

const LayerDef kLayers[] = {
    {.name = "Softmax",
     .summary = "e^x scaled to a sum of 1 over a dimension",
     .math = "y = e^x / sum e^x. Saved: y. Backward: one gradient, and grad * y while it is computed.",
     .parameters = kParameters,
     .lower = lower_softmax,
     .example = {.call = "Softmax(dim=1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .saved_bytes = 25'088,
                 .derivation = "the result, 4*8*14*14*4 bytes, is saved"}},
    {.name = "LogSoftmax",
     .summary = "logarithm of softmax",
     .math = "y = x - log sum e^x. Saved: y. Backward: one gradient.",
     .parameters = kParameters,
     .lower = lower_log_softmax,
     .example = {.call = "LogSoftmax(dim=-1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .saved_bytes = 25'088,
                 .derivation = "the result, 4*8*14*14*4 bytes, is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::softmax
