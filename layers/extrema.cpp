// AMax, AMin: the largest or smallest element over dimensions. Max: the largest of one dimension and where it is.
//
// amax and amin save input and result; their gradient goes to every element that equals the result, divided by how many
// there are: a mask, their number in int64, for whose sum the mask is cast to int64, the divided gradient, and its
// product with the mask (torch/csrc/autograd/FunctionsManual.cpp, scale_grad_by_count). max over a dimension saves its
// int64 indices; its gradient is scattered into zeros (value_selecting_reduction_backward).

#include <array>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/base/integers.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::extrema {
namespace {

struct Names {
  Operator op;
  std::string_view node;
};

void lower_extremum(LayerBuilder& b, const Names& names) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const unsigned mask = dimension_mask(b, "dim", in.rank());
  const Shape kept = reduced_shape(in, mask, true);
  const Reduction work{.shape = in, .reduced = mask, .input = dtype, .output = dtype};
  const TensorId y = b.emit(names.op, work, {x}, reduced_shape(in, mask, b.boolean("keepdim")), dtype);
  b.attributes({{Attribute::dims, mask}});
  if (NodeBuilder node = b.node(names.node, y, {x})) {
    const Elementwise each{in.elements()};
    const Operand equal = node.run(Operator::eq, each, {y, x}, in, DType::boolean);
    const OpaqueKernel sum =
        aten::result_with_temporary(checked_mul(in.elements(), size_of(DType::int64)), in.elements());
    const Operand count = node.run(Operator::sum, sum, {equal}, kept, DType::int64);
    const Operand share =
        node.run(Operator::div, Elementwise{kept.elements()}, {node.reshape(node.grad(), kept), count}, kept, dtype);
    node.give(x, node.run(Operator::mul, each, {share, equal}, in, dtype));
    node.hold({share, count, equal});
  }
  b.output(y);
}

void lower_amax(LayerBuilder& b) { lower_extremum(b, {Operator::amax, "AmaxBackward0"}); }
void lower_amin(LayerBuilder& b) { lower_extremum(b, {Operator::amin, "AminBackward0"}); }

void lower_max(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const Shape out = reduced_shape(in, 1U << dim, b.boolean("keepdim"));
  const std::array<OutputSpec, 2> results{{{out, dtype}, {out, DType::int64}}};
  const std::vector<TensorId> made = b.emit_many(Operator::max, Elementwise{in.elements()}, {x}, results);
  b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("MaxBackward0", made[0], {x})) {
    const Operand dx = node.run(Operator::new_zeros, Fill{in.elements()}, {}, in, dtype);
    node.run_in_place(Operator::scatter_, Elementwise{out.elements()}, {dx, node.grad(), made[1]});
    node.attributes({{Attribute::dim, dim}});
    node.give(x, dx);
  }
  b.outputs(made);
}

const ParameterDef kDims{"dim", ParameterType::integers, "None", "dimension or list of dimensions; None: all"};
const ParameterDef kKeep{"keepdim", ParameterType::boolean, "False", "keeps the reduced dimensions with size 1"};

LayerDef extremum(std::string_view name, std::string_view summary, void (*lower)(LayerBuilder&),
                  std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math =
              "Saved: x and y. Backward: masks of one byte and of eight an element, and one gradient, shared by the\n"
              "elements that equal y.",
          .parameters = {kDims, kKeep},
          .lower = lower,
          .example = {.call = call,
                      .input_shapes = {{4, 8, 14, 14}},
                      .output_shape = {4, 1, 14, 14},
                      .saved_bytes = 28'224,
                      .derivation = "x of 4*8*14*14*4 bytes and the result of 4*14*14*4"}};
}

const LayerDef kLayers[] = {
    extremum("AMax", "the largest element over dimensions", lower_amax, "AMax(dim=1, keepdim=True)"),
    extremum("AMin", "the smallest element over dimensions", lower_amin, "AMin(dim=1, keepdim=True)"),
    {.name = "Max",
     .summary = "the largest element of a dimension, and its index",
     .math = "x.max(dim): the values and their int64 indices, as name.0 and name.1. Saved: the indices.",
     .parameters = {{"dim", ParameterType::integer, "", "the dimension"}, kKeep},
     .lower = lower_max,
     .example = {.call = "Max(1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 14, 14},
                 .saved_bytes = 6'272,
                 .derivation = "the indices, 4*14*14*8 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::extrema
