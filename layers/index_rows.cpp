// Index: rows of a matrix by a tensor of integers, as x[index] in Python.
//
// Saves the index; its backward adds the gradient into zeros of the table's size by index_put_ with accumulation, which
// sorts the indices (aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel).

#include <string>

#include "estimator/aten/rearrange.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers {
namespace {

void lower(LayerBuilder& b) {
  const TensorId table = b.input(0), index = b.input(1);
  if (b.shape(table).rank() != 2) b.fail("expects a table [rows, features], got " + to_string(b.shape(table)));
  if (b.dtype(index) != DType::int64)
    b.fail("expects int64 indices as its second input, got " + std::string(name_of(b.dtype(index))));
  const TensorId rows = aten::index_rows(b, table, index);
  if (b.shape(index).rank() == 1) return b.output(rows);
  Shape out = b.shape(index);
  if (out.rank() >= Shape::kMaxRank) b.fail("the index " + to_string(out) + " has too many dimensions");
  out.push_back(b.shape(table)[1]);
  b.output(aten::view(b, rows, out));
}

const LayerDef kIndex{
    .name = "Index",
    .summary = "rows of a matrix by an index tensor",
    .math = "table [n, m], index [...] of int64 -> [..., m]. Saved: the index.",
    .parameters = {},
    .min_inputs = 2,
    .max_inputs = 2,
    .indices = true,
    .lower = lower,
    .example = {.call = "Index()",
                .input_shapes = {{169, 4}, {49, 49}},
                .input_dtype = DType::int64,
                .output_shape = {49, 49, 4},
                .derivation = "integers have no gradient, so nothing is saved"},
};

const LayerDef* const kLayers[] = {&kIndex};

}  // namespace

std::span<const LayerDef* const> index_rows_layers() { return kLayers; }

}  // namespace gpuplan::layers
