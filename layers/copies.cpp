// Clone, To, TypeAs, AutocastType, Detach, RequiresGrad, Return: the same values as another tensor, or under another
// name.
//
// clone and a conversion hand their gradient on (derivatives.yaml; the conversion's is converted back); a detached
// tensor shares the storage and has no gradient. A tensor that is made to require one is a leaf: its gradient stays in
// x.grad, and goes with the graph. Return is the tuple that a function returns: name.0, name.1, ...

#include "estimator/aten/views.h"
#include "estimator/graph/dtype_argument.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::copies {
namespace {

void lower_clone(LayerBuilder& b) { b.output(aten::clone(b, b.input())); }

void lower_to(LayerBuilder& b) { b.output(b.cast(b.input(), required_dtype(b))); }

void lower_type_as(LayerBuilder& b) { b.output(b.cast(b.input(0), b.dtype(b.input(1)))); }

void lower_autocast_type(LayerBuilder& b) { b.output(b.cached_cast(b.input())); }

void lower_detach(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(b.alias(x, b.shape(x), b.strides(x)));
}

void lower_requires_grad(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.training() && !b.requires_grad(x)) ModelBuilder(b).require_gradient(x);
  b.output(x);
}

void lower_return(LayerBuilder& b) {
  std::vector<TensorId> results;
  for (int i = 0; i < b.input_count(); ++i) results.push_back(b.input(i));
  b.outputs(results);
}

const LayerDef kLayers[] = {
    {.name = "Clone",
     .summary = "tensor.clone",
     .math = "A copy. Saved: nothing. The gradient passes through.",
     .indices = true,
     .lower = lower_clone,
     .example = {.call = "Clone()", .input_shapes = {{4, 8, 14, 14}}, .derivation = "nothing is saved"}},
    {.name = "To",
     .summary = "tensor.to of a type",
     .math = "x in this type: a copy, or x itself where it has it. Saved: nothing. The gradient is converted back.",
     .parameters = {{"dtype", ParameterType::word, "", "float32, float16, bfloat16, int64, bool, ..."}},
     .indices = true,
     .lower = lower_to,
     .example = {.call = "To(int32)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
    {.name = "TypeAs",
     .summary = "tensor.type_as: to the type of another tensor",
     .math = "x in y's type: a copy, or x itself where it has it. Saved: nothing. The gradient is converted back.",
     .min_inputs = 2,
     .indices = true,
     .lower = lower_type_as,
     .example = {.call = "TypeAs()", .input_shapes = {{4, 8, 14, 14}, {4, 8}}, .derivation = "of one type: x itself"}},
    {.name = "AutocastType",
     .summary = "casts to autocast's type, as torch.einsum does with its operands",
     .math = "x itself without autocast, under it a copy in its type. Saved: nothing. The gradient is converted back.\n"
             "Products convert what they are given themselves; this is for an operation that does more to it before.",
     .lower = lower_autocast_type,
     .example = {.call = "AutocastType()",
                 .input_shapes = {{4, 8, 14, 14}},
                 .derivation = "without autocast: x itself"}},
    {.name = "Detach",
     .summary = "tensor.detach",
     .math = "The same storage without a gradient. No kernel.",
     .indices = true,
     .lower = lower_detach,
     .example = {.call = "Detach()",
                 .input_shapes = {{4, 8, 14, 14}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is computed"}},
    {.name = "RequiresGrad",
     .summary = "tensor.requires_grad_()",
     .math = "x itself, which gets a gradient from here on where it had none: what transformers' "
             "enable_input_require_grads\n"
             "does to the embeddings of a model whose adapters alone are trained, for its checkpoints. No kernel.",
     .lower = lower_requires_grad,
     .example = {.call = "RequiresGrad()", .input_shapes = {{4, 8, 14, 14}}, .derivation = "nothing is computed"}},
    {.name = "Return",
     .summary = "several results of a block",
     .math = "Written last: the block's results are name.0, name.1, ... of its entry. No kernel.",
     .min_inputs = 1,
     .max_inputs = 1024,
     .indices = true,
     .lower = lower_return,
     .example = {.call = "Return()", .input_shapes = {{4, 8, 14, 14}, {4, 8}}, .derivation = "nothing is computed"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::copies
