// Mean, Sum over dimensions, and the losses that are the output's mean or sum.
//
// Both save sizes only; before 2.0 mean over named dimensions saved its input. The gradient of a sum is the incoming
// one expanded, a view without memory of its own; that of a mean is divided, which makes it a full tensor
// (torch/csrc/autograd/FunctionsManual.cpp, sum_backward and mean_backward).

#include "estimator/aten/pointwise.h"
#include "estimator/graph/dimensions.h"
#include "estimator/graph/dtype_argument.h"

namespace gpuplan::layers::reduce {
namespace {

void lower_dimensions(LayerBuilder& b, bool mean) {
  const unsigned mask = dimension_mask(b, "dim", b.shape(b.input()).rank());
  const std::optional<DType> dtype = named_dtype(b);
  if (mean && dtype && !is_floating(*dtype)) b.fail("dtype", "a mean has a floating type", "expected float32, ...");
  if (mean && !is_floating(dtype.value_or(b.dtype(b.input()))))
    b.fail("is a mean of integers, which PyTorch refuses; dtype=float32 gives a mean of them in that type");
  if (dtype && !is_floating(*dtype) && b.requires_grad(b.input()))
    b.fail("dtype", "a sum of integers has no gradient, and its input wants one", "PyTorch refuses it");
  b.output(aten::reduce(b, b.input(), mask, b.boolean("keepdim"), mean, dtype));
}

void lower_mean(LayerBuilder& b) { lower_dimensions(b, true); }
void lower_sum(LayerBuilder& b) { lower_dimensions(b, false); }
void lower_loss(LayerBuilder& b, bool mean) {
  b.output(aten::reduce(b, b.input(), (1U << b.shape(b.input()).rank()) - 1, false, mean));
}
void lower_mean_loss(LayerBuilder& b) { lower_loss(b, true); }
void lower_sum_loss(LayerBuilder& b) { lower_loss(b, false); }

const std::vector<ParameterDef> kParameters = {
    {"dim", ParameterType::integers, "None", "dimension or list of dimensions; None: all"},
    {"keepdim", ParameterType::boolean, "False", "keeps the reduced dimensions with size 1"},
    {"dtype", ParameterType::word, "None", "type that it is computed and returned in; None: the input's"}};

const LayerDef kLayers[] = {
    {.name = "Mean",
     .summary = "mean over dimensions",
     .math = "y = sum of x over dim / their size. Saved: nothing (before 2.0: x, unless all dimensions go).",
     .parameters = kParameters,
     .lower = lower_mean,
     .example = {.call = "Mean(dim=[2, 3])",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8},
                 .derivation = "only sizes are saved"}},
    {.name = "Sum",
     .summary = "sum over dimensions",
     .math = "y = sum of x over dim, in fp32 under autocast. Saved: nothing. Its gradient is an expanded view.",
     .parameters = kParameters,
     .lower = lower_sum,
     .example = {.call = "Sum(dim=-1, keepdim=True)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 8, 14, 1},
                 .derivation = "only sizes are saved"}},
    {.name = "mean",
     .summary = "the mean of the output, as a loss without a target",
     .math = "loss = mean of all elements. Saved: nothing. Backward: one full gradient.",
     .loss = true,
     .lower = lower_mean_loss,
     .example = {.call = "mean()",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {},
                 .derivation = "a scalar; only sizes are saved"}},
    {.name = "sum",
     .summary = "the sum of the output, as a loss without a target",
     .math = "loss = sum of all elements, in fp32 under autocast. Saved: nothing. Its gradient is an expanded view.",
     .loss = true,
     .lower = lower_sum_loss,
     .example = {.call = "sum()",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {},
                 .derivation = "a scalar; only sizes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::reduce
