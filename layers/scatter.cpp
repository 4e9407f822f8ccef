// IndexPut, Scatter: elements that are replaced in place, where an index says. Neither allocates anything; tensors that
// want a gradient are not modelled.

#include <string>

#include "estimator/graph/dimensions.h"
#include "estimator/graph/layer.h"

namespace gpuplan::layers::scatter {
namespace {

TensorId without_gradient(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.dtype(b.input(1)) != DType::int64)
    b.fail("expects an index of int64, got " + std::string(name_of(b.dtype(b.input(1)))));
  for (int i = 0; i < b.input_count(); ++i)
    if (b.requires_grad(b.input(i))) b.fail("changes a tensor that wants a gradient, which is not supported");
  return x;
}

void lower_index_put(LayerBuilder& b) {
  const TensorId x = without_gradient(b);
  if (b.dtype(b.input(2)) != b.dtype(x)) b.fail("expects values of the input's type");
  b.output(b.emit_in_place(Operator::index_put_, Copy{b.elements(b.input(1))}, {x, b.input(1), b.input(2)}));
}

void lower_scatter(LayerBuilder& b) {
  const TensorId x = without_gradient(b);
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), b.shape(x).rank());
  if (b.shape(b.input(1)).rank() != b.shape(x).rank()) b.fail("expects an index of the input's rank");
  b.output(b.emit_in_place(Operator::scatter_, Elementwise{b.elements(b.input(1))}, {x, b.input(1)}));
  b.attributes({{Attribute::dim, dim}, {Attribute::value, b.real("value")}});
}

const LayerDef kLayers[] = {
    {.name = "IndexPut",
     .summary = "x[index] = values, in place",
     .math = "x [n, ...], index [k] of int64, values [k, ...] -> x. No gradient.",
     .min_inputs = 3,
     .max_inputs = 3,
     .indices = true,
     .lower = lower_index_put,
     .example = {.call = "IndexPut()",
                 .input_shapes = {{512}, {512}, {512}},
                 .input_dtype = DType::int64,
                 .derivation = "integers have no gradient, so nothing is saved"}},
    {.name = "Scatter",
     .summary = "x.scatter_(dim, index, value), in place",
     .math = "x [n, m], index [n, k] of int64 -> x, of whose elements those at the index are the value. No gradient.",
     .parameters = {{"dim", ParameterType::integer, "", "the dimension that the index is of"},
                    {"value", ParameterType::real, "", "the number"}},
     .min_inputs = 2,
     .max_inputs = 2,
     .indices = true,
     .lower = lower_scatter,
     .example = {.call = "Scatter(1, value=1)",
                 .input_shapes = {{4, 100}, {4, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {4, 100},
                 .derivation = "integers have no gradient, so nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::scatter
