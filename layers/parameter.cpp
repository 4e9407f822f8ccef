// Parameter, ReplacedParameter, Buffer, Constant, Identity: values that a model's code uses without a kernel.
//
// Parameter is an nn.Parameter that the forward reads (class token, position table, layer scale), Buffer a registered
// tensor without a gradient. Both have the sizes that are written, without a batch.

#include <string>

#include "estimator/graph/dtype_argument.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::parameter {
namespace {

Shape written_shape(const LayerBuilder& b) {
  const std::vector<std::int64_t> sizes = b.integers("shape");
  if (sizes.size() > static_cast<std::size_t>(Shape::kMaxRank))
    b.fail("shape", "at most " + std::to_string(Shape::kMaxRank) + " dimensions are supported");
  for (const std::int64_t n : sizes)
    if (n < 1) b.fail("shape", "a size must be at least 1, got " + std::to_string(n), "expected sizes >= 1");
  return Shape(std::span<const std::int64_t>(sizes));
}

void lower_parameter(LayerBuilder& b) { b.output(b.parameter("", written_shape(b), converted_dtype(b))); }

void lower_replaced(LayerBuilder& b) {
  ModelBuilder(b).replaced_parameter(written_shape(b), b.boolean("tied"));
  b.output(b.input());
}

void lower_buffer(LayerBuilder& b) {
  const DType written = required_dtype(b);
  const bool converted = is_floating(written) && !b.boolean("fixed");
  const DType dtype = converted ? b.run().buffer_type.value_or(b.run().precision) : written;
  b.output(b.buffer("", written_shape(b), dtype));
}

void lower_constant(LayerBuilder& b) { b.output(ModelBuilder(b).constant(written_shape(b), converted_dtype(b))); }

void lower_identity(LayerBuilder& b) { b.output(b.input()); }

const ParameterDef kShape{"shape", ParameterType::integers, "", "its sizes, without a batch", true};

const LayerDef kLayers[] = {
    {.name = "Parameter",
     .summary = "a weight that the model's code reads itself",
     .math = "W [shape], named by the entry's path. No kernel. Of integers, as a quantized weight, it is not trained.",
     .parameters = {kShape,
                    {"dtype", ParameterType::word, "float32",
                     "type of its elements; floating ones follow --precision"}},
     .min_inputs = 0,
     .lower = lower_parameter,
     .example = {.call = "Parameter(1, 197, 768)",
                 .input_shapes = {},
                 .output_shape = {1, 197, 768},
                 .parameters = 151'296,
                 .derivation = "197*768 parameters"}},
    {.name = "ReplacedParameter",
     .summary = "a weight that is created with the model and then replaced by another one",
     .math = "y = x: the same tensor. The weight is gone once the model is built, and the others lie around the place "
             "that\nit had. transformers pads the bias of a head with tied weights, which makes a new one "
             "(modeling_utils.py,\n_adjust_bias).",
     .parameters = {kShape,
                    {"tied", ParameterType::boolean, "False", "the other one is tied: the model has it at two places"}},
     .lower = lower_replaced,
     .example = {.call = "ReplacedParameter(30522)",
                 .input_shapes = {{4, 768}},
                 .derivation = "nothing happens in a step"}},
    {.name = "Buffer",
     .summary = "a registered tensor without a gradient",
     .math = "A tensor of the model that is not trained (mask, position index). No kernel.",
     .parameters = {kShape,
                    {"dtype", ParameterType::word, "float32", "type of its elements; floating ones follow --precision"},
                    {"fixed", ParameterType::boolean, "False",
                     "keeps its type: a tensor that is not registered, as the scales of a quantized weight"}},
     .min_inputs = 0,
     .lower = lower_buffer,
     .example = {.call = "Buffer(49, 49, dtype=int64)",
                 .input_shapes = {},
                 .output_shape = {49, 49},
                 .derivation = "nothing is saved"}},
    {.name = "Constant",
     .summary = "a tensor that the model's code creates once and keeps",
     .math = "Neither a parameter nor a buffer: made in the first step, alive from then on. No kernel.",
     .parameters = {kShape,
                    {"dtype", ParameterType::word, "float32",
                     "type of its elements; floating ones follow --precision"}},
     .min_inputs = 0,
     .lower = lower_constant,
     .example = {.call = "Constant(196, 196, 3)",
                 .input_shapes = {},
                 .output_shape = {196, 196, 3},
                 .derivation = "nothing is saved"}},
    {.name = "Identity",
     .summary = "returns its input",
     .math = "y = x: the same tensor.",
     .lower = lower_identity,
     .example = {.call = "Identity()", .input_shapes = {{4, 8, 14, 14}}, .derivation = "nothing happens"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::parameter
