// Gather, IndexSelect, Cumsum: elements by their indices, and running sums.
//
// Both look-ups save the index, gather its input too, of which it needs the sizes alone; their backward adds the
// gradient into zeros of the input's size, in place (torch/csrc/autograd/FunctionsManual.cpp,
// gather_with_keepdimed_indices; tools/autograd/derivatives.yaml).

#include <string>

#include "estimator/aten/scan.h"
#include "estimator/graph/dimensions.h"
#include "estimator/graph/dtype_argument.h"

namespace gpuplan::layers::gather {
namespace {

struct Lookup {
  Operator op;
  std::string_view node;
  Operator zeros, add;
  bool saves_input;
};

constexpr Lookup kGatherOps{Operator::gather, "GatherBackward0", Operator::new_zeros, Operator::scatter_add_, true};
constexpr Lookup kSelectOps{Operator::index_select, "IndexSelectBackward0", Operator::new_zeros, Operator::index_add_,
                            false};

TensorId index_of(const LayerBuilder& b) {
  const TensorId index = b.input(1);
  if (b.dtype(index) != DType::int64 && b.dtype(index) != DType::int32)
    b.fail("expects integer indices as its second input, got " + std::string(name_of(b.dtype(index))));
  return index;
}

TensorId look_up(LayerBuilder& b, const Lookup& names, const Shape& out, int dim) {
  const TensorId x = b.input(0), index = b.input(1);
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const TensorId y = b.emit(names.op, Copy{out.elements()}, {x, index}, out, dtype);
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node(names.node, y, {x})) {
    const Operand sum = node.run(names.zeros, Fill{in.elements()}, {}, in, dtype);
    node.run_in_place(names.add, Elementwise{out.elements()}, {sum, node.grad(), index});
    node.attributes({{Attribute::dim, dim}});
    if (names.saves_input) node.save(x);
    node.give(x, sum);
  }
  return y;
}

void lower_gather(LayerBuilder& b) {
  const Shape in = b.shape(b.input(0));
  const Shape index = b.shape(index_of(b));
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  bool fits = index.rank() == in.rank();
  for (int i = 0; fits && i < in.rank(); ++i) fits = i == dim || index[i] <= in[i];
  if (!fits)
    b.fail("an index " + to_string(index) + " does not fit an input " + to_string(in) +
           " in every dimension but the gathered one");
  b.output(look_up(b, kGatherOps, index, dim));
}

void lower_select(LayerBuilder& b) {
  Shape out = b.shape(b.input(0));
  const Shape index = b.shape(index_of(b));
  if (index.rank() > 1) b.fail("expects an index of one dimension, got " + to_string(index));
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), out.rank());
  out.set(dim, index.elements());
  b.output(look_up(b, kSelectOps, out, dim));
}

void lower_cumsum(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::cumsum(b, x, wrap_dimension(b, "dim", b.integer("dim"), b.shape(x).rank()), named_dtype(b)));
}

const LayerDef kLayers[] = {
    {.name = "Gather",
     .summary = "torch.gather: elements of a dimension by an index of the result's shape",
     .math = "x and index of the same rank -> y of the index's shape, y[i][j] = x[index[i][j]][j] for dim 0. Saved: x\n"
             "and the index. Backward: zeros of x's size, added into in place.",
     .parameters = {{"dim", ParameterType::integer, "", "the dimension that is looked up"}},
     .min_inputs = 2,
     .indices = true,
     .lower = lower_gather,
     .example = {.call = "Gather(1)",
                 .input_shapes = {{4, 100}, {4, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {4, 10},
                 .derivation = "the shape of the index; integers have no gradient, so nothing is saved"}},
    {.name = "IndexSelect",
     .summary = "torch.index_select: positions of a dimension",
     .math =
         "x [..., n, ...] and index [k] -> y [..., k, ...]. Saved: the index. Backward: zeros of x's size, added into.",
     .parameters = {{"dim", ParameterType::integer, "", "the dimension that is looked up"}},
     .min_inputs = 2,
     .indices = true,
     .lower = lower_select,
     .example = {.call = "IndexSelect(0)",
                 .input_shapes = {{100, 8}, {10}},
                 .input_dtype = DType::int64,
                 .output_shape = {10, 8},
                 .derivation = "10 of 100 positions; integers have no gradient, so nothing is saved"}},
    {.name = "Cumsum",
     .summary = "running sums along a dimension",
     .math = "y[i] = x[0] + ... + x[i], in fp32 under autocast. Saved: nothing. Backward: flip, cumsum, flip.",
     .parameters = {{"dim", ParameterType::integer, "", "the dimension that is summed along"},
                    {"dtype", ParameterType::word, "None", "type of the sums; None: the input's, int64 of integers"}},
     .indices = true,
     .lower = lower_cumsum,
     .example = {.call = "Cumsum(1)", .input_shapes = {{4, 100}}, .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::gather
