// IndexPut, Scatter: elements that are replaced in place, where an index says. Neither allocates anything; a tensor
// that wants a gradient is not modelled in the place of one that is changed. What Scatter puts there has the gradient's
// elements at the index (tools/autograd/derivatives.yaml, scatter.src), which it saves.

#include <string>

#include "estimator/graph/dimensions.h"
#include "estimator/graph/layer.h"

namespace gpuplan::layers::scatter {
namespace {

TensorId changed(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.dtype(b.input(1)) != DType::int64)
    b.fail("expects an index of int64, got " + std::string(name_of(b.dtype(b.input(1)))));
  if (b.requires_grad(x)) b.fail("changes a tensor that wants a gradient, which is not supported");
  return x;
}

void lower_index_put(LayerBuilder& b) {
  const TensorId x = changed(b);
  if (b.dtype(b.input(2)) != b.dtype(x)) b.fail("expects values of the input's type");
  if (b.requires_grad(b.input(2))) b.fail("puts values that want a gradient into a tensor, which is not supported");
  b.output(b.emit_in_place(Operator::index_put_, Copy{b.elements(b.input(1))}, {x, b.input(1), b.input(2)}));
}

void lower_scatter(LayerBuilder& b) {
  const TensorId x = changed(b);
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), b.shape(x).rank());
  if (b.shape(b.input(1)).rank() != b.shape(x).rank()) b.fail("expects an index of the input's rank");
  const TensorId index = b.input(1);
  const Elementwise each{b.elements(index)};
  if (b.input_count() == 2) {
    b.output(b.emit_in_place(Operator::scatter_, each, {x, index}));
    return b.attributes({{Attribute::dim, dim}, {Attribute::value, b.real("value")}});
  }
  if (b.given("value")) b.fail("value", "has values and a number", "leave it out, or give two inputs");
  const TensorId values = b.input(2);
  if (!(b.shape(values) == b.shape(index)) || b.dtype(values) != b.dtype(x))
    b.fail("expects values of the index's shape " + to_string(b.shape(index)) + " and the input's type");
  const TensorId y = b.emit_in_place(Operator::scatter_, each, {x, values, index});
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("ScatterBackward0", y, {values})) {
    node.give(values,
              node.run(Operator::gather, Copy{each.elements}, {node.grad(), index}, b.shape(index), b.dtype(x)));
    node.attributes({{Attribute::dim, dim}});
  }
  b.output(y);
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
     .math = "x [n, m], index [n, k] of int64, values [n, k] or a number -> x, of whose elements those at the index "
             "are these.\n"
             "Saved: the index where the values want a gradient. x has none.",
     .parameters = {{"dim", ParameterType::integer, "", "the dimension that the index is of"},
                    {"value", ParameterType::real, "None", "a number instead of values"}},
     .min_inputs = 2,
     .max_inputs = 3,
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
