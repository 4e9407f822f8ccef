// Conv1D: Hugging Face's linear layer with its weight as [in, out], which GPT-2 is made of.
//
// transformers/pytorch_utils.py, Conv1D: torch.addmm(bias, x.view(-1, in), weight).view(..., out).

#include "estimator/aten/linear.h"
#include "estimator/aten/stored_linear.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::conv1d_transformers {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  if (in.rank() < 1) b.fail("expects an input [..., nx]");
  const std::int64_t n = b.size("nf");
  const std::int64_t k = b.size("nx", in[-1], "input features");
  const TensorId weight = b.parameter("weight", {k, n});
  const TensorId bias = b.parameter("bias", {n});
  if (b.stored()) return b.output(aten::stored_linear(b, x, weight, n, bias));
  Shape out = in;
  out.set(-1, n);
  b.output(aten::view(b, aten::addmm(b, bias, aten::view(b, x, {in.elements() / k, k}), weight), out));
}

const LayerDef kLayers[] = {
    {.name = "Conv1D",
     .summary = "y = x W + b, Hugging Face's GPT-2 linear layer",
     .math = "x [..., k], W [k, n], b [n] -> y [..., n]; costs and saved tensors as Linear's.\n"
             "Saved: x (if W is trained), W (if x wants a gradient).",
     .parameters = {{"nf", ParameterType::size, "", "size of the last output dimension"},
                    {"nx", ParameterType::size, "", "size of the last input dimension, or _"}},
     .lower = lower,
     .example = {.call = "Conv1D(2304, 768)",
                 .input_shapes = {{2, 10, 768}},
                 .output_shape = {2, 10, 2304},
                 .parameters = 1'771'776,
                 .forward_macs = 35'389'440,
                 .backward_macs = 70'778'880,
                 .saved_bytes = 61'440,
                 .derivation = "768*2304 + 2304 parameters; 20*768*2304 multiply-adds; x is 2*10*768*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::conv1d_transformers
