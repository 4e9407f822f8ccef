// Transpose, Permute: the same storage with its dimensions in another order.
//
// Views: no kernel, only the order is saved, and the gradient is permuted back. What follows sees the strides: Reshape
// copies where they allow no view, pointwise results keep the order, and [N, C, H, W] of NHWC data is channels-last.

#include <string>

#include "estimator/aten/views.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::permute {
namespace {

void lower_transpose(LayerBuilder& b) {
  const int rank = b.shape(b.input()).rank();
  const int first = wrap_dimension(b, "dim0", b.integer("dim0"), rank);
  const int second = wrap_dimension(b, "dim1", b.integer("dim1"), rank);
  b.output(aten::transpose(b, b.input(), first, second));
}

void lower_permute(LayerBuilder& b) {
  const Shape& in = b.shape(b.input());
  const std::vector<std::int64_t> dims = b.integers("dims");
  if (static_cast<int>(dims.size()) != in.rank())
    b.fail("dims",
           std::to_string(dims.size()) + " dimensions are listed, the input " + to_string(in) + " has " +
               std::to_string(in.rank()),
           "expected every dimension once, the batch's too");
  (void)dimension_mask(b, "dims", in.rank());  // each once
  std::vector<int> order;
  for (const std::int64_t d : dims) order.push_back(wrap_dimension(b, "dims", d, in.rank()));
  b.output(aten::permute(b, b.input(), order));
}

const LayerDef kLayers[] = {
    {.name = "Transpose",
     .summary = "swaps two dimensions",
     .math = "A view of the same storage, in general not contiguous.",
     .parameters = {{"dim0", ParameterType::integer, "", "one of the two dimensions"},
                    {"dim1", ParameterType::integer, "", "the other one"}},
     .lower = lower_transpose,
     .example = {.call = "Transpose(1, 2)",
                 .input_shapes = {{4, 8, 14, 10}},
                 .output_shape = {4, 14, 8, 10},
                 .derivation = "a view"}},
    {.name = "Permute",
     .summary = "puts the dimensions in another order",
     .math = "A view of the same storage, in general not contiguous. All dimensions are listed, the batch's too.",
     .parameters = {{"dims", ParameterType::integers, "", "every dimension of the input once", true}},
     .lower = lower_permute,
     .example = {.call = "Permute(0, 2, 3, 1)",
                 .input_shapes = {{4, 8, 14, 10}},
                 .output_shape = {4, 14, 10, 8},
                 .derivation = "a view"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::permute
