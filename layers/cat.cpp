// Cat: tensors one after the other along a dimension. JoinSamples: the samples of a batch, which a model took apart.
//
// One copy into the result; nothing is saved. The gradients are views of the incoming one (narrow,
// torch/csrc/autograd/FunctionsManual.cpp, cat_tensors_backward): dense only where every dimension before it is of
// size 1.

#include <limits>
#include <string>

#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::cat {
namespace {

Shape joined_shape(const LayerBuilder& b, int dim) {
  const Shape& first = b.shape(b.input());
  Shape out = first;
  for (int i = 1; i < b.input_count(); ++i) {
    const Shape& next = b.shape(b.input(i));
    bool fits = next.rank() == first.rank();
    for (int d = 0; fits && d < first.rank(); ++d) fits = d == dim || next[d] == first[d];
    if (!fits)
      b.fail("input " + std::to_string(i) + " is " + to_string(next) + ", which does not join " + to_string(first) +
             " along dimension " + std::to_string(dim));
    out.set(dim, checked_add(out[dim], next[dim]));
  }
  return out;
}

void lower(LayerBuilder& b) {
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), b.shape(b.input()).rank());
  (void)joined_shape(b, dim);  // checked
  std::vector<TensorId> inputs;
  for (int i = 0; i < b.input_count(); ++i) inputs.push_back(b.input(i));
  b.output(aten::cat(b, inputs, dim));
}

// torch.cat(list(x)), as vision-language models have it of the features of their images, and torch.stack(list(x)).
// Autograd has one node for each sample's view and gives x their gradients stacked (unbind_backward).
void lower_samples(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape& each = b.shape(x);
  if (each.rank() < 2) b.fail("expects a batch of samples, got " + to_string(each));
  Shape out = each;
  if (!b.boolean("stacked")) {
    out = Shape{checked_mul(each[0], each[1])};
    for (int d = 2; d < each.rank(); ++d) out.push_back(each[d]);
  }
  const TensorId y = b.emit(Operator::cat, Copy{out.elements()}, {x}, out, b.dtype(x));
  b.attributes({{Attribute::dim, 0}});
  if (NodeBuilder node = b.node("UnbindBackward0", y, {x}))
    node.give(x, node.run(Operator::stack, Copy{out.elements()}, {node.grad()}, each, b.dtype(x)));
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "Cat",
     .summary = "joins tensors along a dimension",
     .math = "[..., a, ...], [..., b, ...] -> [..., a + b, ...]: one copy. Nothing is saved; the gradients are views.",
     .parameters = {{"dim", ParameterType::integer, "0", "dimension along which the inputs follow each other"}},
     .min_inputs = 1,
     .max_inputs = std::numeric_limits<int>::max(),
     .lower = lower,
     .example = {.call = "Cat(dim=1)",
                 .input_shapes = {{4, 8, 14, 14}, {4, 4, 14, 14}},
                 .output_shape = {4, 12, 14, 14},
                 .derivation = "8 + 4 channels"}},
    {.name = "JoinSamples",
     .summary = "joins the samples of a batch that a model took apart",
     .math = "[b, n, ...] -> [b n, ...], or as it was where stacked=True: one copy. Backward: another one.",
     .parameters = {{"stacked", ParameterType::boolean, "False",
                     "torch.stack() of the samples instead of torch.cat()"}},
     .lower = lower_samples,
     .example = {.call = "JoinSamples()",
                 .input_shapes = {{4, 8, 14}},
                 .output_shape = {32, 14},
                 .derivation = "4 samples of 8 rows"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::cat
