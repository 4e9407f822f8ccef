// Index: elements by tensors of integers, as x[index], x[:, i] and x[i, j] in Python.
//
// Saves the indices; its backward adds the gradient into zeros of the input's size by index_put_ with accumulation,
// which sorts the indices (aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel).

#include <limits>

#include "estimator/aten/indexing.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::index_rows {
namespace {

void lower(LayerBuilder& b) {
  std::vector<TensorId> indices;
  for (int i = 1; i < b.input_count(); ++i) indices.push_back(b.input(i));
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), b.shape(b.input()).rank());
  b.output(aten::index(b, b.input(), indices, dim, b.boolean("host")));
}

const LayerDef kLayers[] = {
    {.name = "Index",
     .summary = "elements by index tensors",
     .math =
         "x [n, m], index [...] of int64 -> [..., m]; with dim=1 x[:, index]; further indices are of the dimensions\n"
         "that follow, x[i, j]. Saved: the indices.",
     .parameters = {{"dim", ParameterType::integer, "0", "the dimension of the first index"},
                    {"host", ParameterType::boolean, "False",
                     "the indices are tensors of the host's, of which the inputs are copies: none is saved"}},
     .min_inputs = 2,
     .max_inputs = std::numeric_limits<int>::max(),
     .indices = true,
     .lower = lower,
     .example = {.call = "Index()",
                 .input_shapes = {{169, 4}, {49, 49}},
                 .input_dtype = DType::int64,
                 .output_shape = {49, 49, 4},
                 .derivation = "integers have no gradient, so nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::index_rows
