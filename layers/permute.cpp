// Transpose, Permute: the same storage with its dimensions in another order.
//
// Views: no kernel, only the order is saved, and the gradient is permuted back. The result is contiguous only where the
// dimensions larger than 1 keep their order. gpuplan does not keep strides: that Linear and MaxPool2d copy such an
// input, that pointwise results keep its order, and that [N, C, H, W] of NHWC data is channels-last memory is not
// modelled.

#include <string>

#include "estimator/graph/dimensions.h"

namespace gpuplan::layers {
namespace {

TensorId permute(LayerBuilder& b, const std::vector<int>& order, std::string_view node) {
  const TensorId x = b.input();
  const Shape& in = b.shape(x);
  Shape out;
  int last = -1;
  bool sorted = true;
  for (const int i : order) {
    out.push_back(in[i]);
    if (in[i] == 1) continue;
    sorted = sorted && i > last;
    last = i;
  }
  return b.view(x, out, node, sorted && b.contiguous(x));
}

void lower_transpose(LayerBuilder& b) {
  const int rank = b.shape(b.input()).rank();
  const int first = wrap_dimension(b, "dim0", b.integer("dim0"), rank);
  const int second = wrap_dimension(b, "dim1", b.integer("dim1"), rank);
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) order.push_back(i == first ? second : i == second ? first : i);
  b.output(permute(b, order, "TransposeBackward0"));
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
  b.output(permute(b, order, "PermuteBackward0"));
}

const LayerDef kTranspose{
    .name = "Transpose",
    .summary = "swaps two dimensions",
    .math =
        "A view of the same storage, in general not contiguous. Copies that Linear and MaxPool2d make of it are not "
        "modelled.",
    .parameters = {{"dim0", ParameterType::integer, "", "one of the two dimensions"},
                   {"dim1", ParameterType::integer, "", "the other one"}},
    .lower = lower_transpose,
    .example = {.call = "Transpose(1, 2)",
                .input_shapes = {{4, 8, 14, 10}},
                .output_shape = {4, 14, 8, 10},
                .derivation = "a view"},
};

const LayerDef kPermute{
    .name = "Permute",
    .summary = "puts the dimensions in another order",
    .math =
        "A view of the same storage, in general not contiguous. All dimensions are listed, the batch's too. "
        "Copies that Linear and MaxPool2d make of it are not modelled.",
    .parameters = {{"dims", ParameterType::integers, "", "every dimension of the input once", true}},
    .lower = lower_permute,
    .example = {.call = "Permute(0, 2, 3, 1)",
                .input_shapes = {{4, 8, 14, 10}},
                .output_shape = {4, 14, 10, 8},
                .derivation = "a view"},
};

const LayerDef* const kLayers[] = {&kTranspose, &kPermute};

}  // namespace

std::span<const LayerDef* const> permute_layers() { return kLayers; }

}  // namespace gpuplan::layers
