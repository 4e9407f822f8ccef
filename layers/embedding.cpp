// Embedding: y[i] = W[x[i]]. GemmaTextScaledWordEmbedding: the same times a number that Hugging Face's Gemma keeps in a
// buffer (transformers/models/gemma/modeling_gemma.py); the product saves the buffer.
//
// What runs and what is saved: estimator/aten/embedding.h. Computing the gradient of the table sorts the indices in
// scratch when there are many (aten/src/ATen/native/cuda/Embedding.cu). The row of padding_idx gets a zero gradient and
// takes the same memory.

#include "estimator/aten/embedding.h"

#include <cmath>
#include <string>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/tensor_parallel.h"
#include "estimator/graph/weight_format.h"

namespace gpuplan::layers::embedding {
namespace {

void check_arguments(const LayerBuilder& b, std::int64_t vocabulary) {
  if (b.given("padding_idx")) {
    const std::int64_t padding = b.integer("padding_idx");
    if (padding < -vocabulary || padding >= vocabulary)
      b.fail("padding_idx", "padding_idx " + std::to_string(padding) + " is not a row of the table",
             "expected " + std::to_string(-vocabulary) + " to " + std::to_string(vocabulary - 1));
  }
  if (b.given("max_norm")) b.fail("max_norm", "max_norm is not supported", "expected None");
  if (b.boolean("scale_grad_by_freq"))
    b.fail("scale_grad_by_freq", "scale_grad_by_freq is not supported", "expected False");
  if (b.boolean("sparse")) b.fail("sparse", "sparse gradients are not supported", "expected False");
}

TensorId looked_up(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.dtype(x) != DType::int64 && b.dtype(x) != DType::int32)
    b.fail("expects integer indices, its input is " + std::string(name_of(b.dtype(x))));
  const std::int64_t rows = b.size("num_embeddings"), features = b.size("embedding_dim");
  if (b.tensor_style() != TensorStyle::vocabulary)
    return aten::embedding(b, b.parameter("weight", {rows, features}), x);
  return aten::shared_embedding(b, b.parameter("weight", {rows / b.run().tensor_ranks, features}), x);
}

void lower(LayerBuilder& b) {
  check_arguments(b, b.size("num_embeddings"));
  const TensorId y = aten::shared_output(b, looked_up(b));
  aten::want_gradient_of_tokens(b, y, b.input());
  b.output(y);
}

void lower_scaled(LayerBuilder& b) {
  const TensorId found = looked_up(b);
  const TensorId buffer = b.buffer("embed_scale", {}, b.run().buffer_type.value_or(loaded_type(b.run())),
                                   {Initial::number, std::sqrt(static_cast<double>(b.shape(found)[-1]))});
  const TensorId scale = b.cast(buffer, b.run().precision);
  const TensorId y = aten::summed_rows(b, found);
  const TensorId scaled = aten::mul(b, y, scale);
  if (y != found) b.hold({found});  // the operand that DTensor summed for the product
  const TensorId result = aten::tokens_of_rank(b, scaled);
  aten::want_gradient_of_tokens(b, result, b.input());
  b.output(result);
}

const LayerDef kLayers[] = {
    {.name = "Embedding",
     .summary = "rows of a table, looked up by index",
     .math = "x [...] of integers, W [V, D] -> y [..., D]; no multiply-adds. Backward: a dense [V, D] gradient.\n"
             "Saved: the indices x.",
     .parameters = {{"num_embeddings", ParameterType::size, "", "rows of the table"},
                    {"embedding_dim", ParameterType::size, "", "size of a row"},
                    {"padding_idx", ParameterType::integer, "None", "row without a gradient; takes no less memory"},
                    {"max_norm", ParameterType::real, "None", "not supported: None"},
                    {"norm_type", ParameterType::real, "2.0", "only used with max_norm"},
                    {"scale_grad_by_freq", ParameterType::boolean, "False", "not supported: False"},
                    {"sparse", ParameterType::boolean, "False", "not supported: False"}},
     .indices = true,
     .lower = lower,
     .example = {.call = "Embedding(1000, 32)",
                 .input_shapes = {{4, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {4, 10, 32},
                 .parameters = 32'000,
                 .saved_bytes = 320,
                 .derivation = "1000*32 parameters; 4*10 indices of 8 bytes are saved"}},
    {.name = "GemmaTextScaledWordEmbedding",
     .summary = "rows of a table, looked up by index and scaled",
     .math = "x [...] of integers, W [V, D], s a number in a buffer -> y [..., D] = s W[x].\n"
             "Saved: the indices x. Backward: the product's gradient, then a dense [V, D] one.",
     .parameters = {{"num_embeddings", ParameterType::size, "", "rows of the table"},
                    {"embedding_dim", ParameterType::size, "", "size of a row"}},
     .indices = true,
     .lower = lower_scaled,
     .example = {.call = "GemmaTextScaledWordEmbedding(1000, 32)",
                 .input_shapes = {{4, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {4, 10, 32},
                 .parameters = 32'000,
                 .saved_bytes = 320,
                 .derivation = "1000*32 parameters; 4*10 indices of 8 bytes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::embedding
