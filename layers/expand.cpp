// Expand, Unsqueeze, Squeeze, Stack: dimensions of size 1, repeated, made, dropped or joined.
//
// The first three are views; the gradient of an expanded tensor is summed to its size by the engine. Stack is one copy,
// whose gradient is handed on as views.

#include <string>

#include "estimator/aten/views.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::expand {
namespace {

void lower_expand(LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  const std::vector<std::int64_t> sizes = b.sizes("sizes");
  const int rank = static_cast<int>(sizes.size());
  if (rank < in.rank() || rank > Shape::kMaxRank)
    b.fail("sizes", std::to_string(rank) + " sizes for an input " + to_string(in),
           "expected one for every dimension, or more");
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t n = sizes[static_cast<std::size_t>(i)];
    const int from = i - (rank - in.rank());
    if (n < 1 && (n != -1 || from < 0)) b.fail("sizes", "size " + std::to_string(n) + " is neither a size nor -1");
    out.push_back(n == -1 ? in[from] : n);
  }
  b.output(aten::expand(b, b.input(), out));
}

void lower_unsqueeze(LayerBuilder& b) {
  const int rank = b.shape(b.input()).rank();
  if (rank >= Shape::kMaxRank) b.fail("has too many dimensions for another one");
  b.output(aten::unsqueeze(b, b.input(), wrap_dimension(b, "dim", b.integer("dim"), rank + 1)));
}

void lower_squeeze(LayerBuilder& b) {
  const int rank = b.shape(b.input()).rank();
  b.output(aten::squeeze(b, b.input(), wrap_dimension(b, "dim", b.integer("dim"), rank)));
}

void lower_stack(LayerBuilder& b) {
  std::vector<TensorId> parts;
  for (int i = 0; i < b.input_count(); ++i) {
    parts.push_back(b.input(i));
    if (!(b.shape(parts.back()) == b.shape(parts.front())))
      b.fail("expects inputs of one shape, got " + to_string(b.shape(parts.front())) + " and " +
             to_string(b.shape(parts.back())));
  }
  const int rank = b.shape(b.input()).rank();
  if (rank >= Shape::kMaxRank) b.fail("has too many dimensions for another one");
  b.output(aten::stack(b, parts, wrap_dimension(b, "dim", b.integer("dim"), rank + 1)));
}

const LayerDef kLayers[] = {
    {.name = "Expand",
     .summary = "repeats dimensions of size 1 without copying",
     .math = "x.expand(sizes), the batch's too; -1 keeps a size. A view. Backward: a sum over what was repeated.",
     .parameters = {{"sizes", ParameterType::integers, "", "every size of the result; -1: as it is; _: the batch",
                     true}},
     .lower = lower_expand,
     .example = {.call = "Expand(-1, 8, -1)",
                 .input_shapes = {{4, 1, 14}},
                 .output_shape = {4, 8, 14},
                 .derivation = "a view"}},
    {.name = "Unsqueeze",
     .summary = "adds a dimension of size 1",
     .math = "A view of the same elements.",
     .parameters = {{"dim", ParameterType::integer, "", "where it goes"}},
     .lower = lower_unsqueeze,
     .example =
         {.call = "Unsqueeze(1)", .input_shapes = {{4, 14}}, .output_shape = {4, 1, 14}, .derivation = "a view"}},
    {.name = "Squeeze",
     .summary = "drops a dimension of size 1",
     .math = "A view of the same elements; another size stays.",
     .parameters = {{"dim", ParameterType::integer, "", "which one"}},
     .lower = lower_squeeze,
     .example = {.call = "Squeeze(1)", .input_shapes = {{4, 1, 14}}, .output_shape = {4, 14}, .derivation = "a view"}},
    {.name = "Stack",
     .summary = "joins tensors of one shape along a new dimension",
     .math = "n inputs [...] -> [n, ...]: one copy. Saved: nothing. Backward: views of the gradient.",
     .parameters = {{"dim", ParameterType::integer, "0", "where the new dimension goes"}},
     .min_inputs = 1,
     .max_inputs = 1024,
     .indices = true,
     .lower = lower_stack,
     .example = {.call = "Stack(dim=1)",
                 .input_shapes = {{4, 14}, {4, 14}, {4, 14}},
                 .output_shape = {4, 3, 14},
                 .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::expand
