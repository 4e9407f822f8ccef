// GemmaTextScaledWordEmbedding: Hugging Face's Gemma multiplies the embeddings by a number that it keeps in a buffer.
//
// transformers/models/gemma/modeling_gemma.py. The product saves the buffer; its gradient is the embedding's.

#include "estimator/aten/embedding.h"
#include "estimator/aten/pointwise.h"

namespace gpuplan::layers {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.dtype(x) != DType::int64 && b.dtype(x) != DType::int32)
    b.fail("expects integer indices, its input is " + std::string(name_of(b.dtype(x))));
  const TensorId weight = b.parameter("weight", {b.size("num_embeddings"), b.size("embedding_dim")});
  const TensorId scale = b.buffer("embed_scale", {}, b.run().precision);
  b.output(aten::mul(b, aten::embedding(b, weight, x), scale));
}

const LayerDef kScaledEmbedding{
    .name = "GemmaTextScaledWordEmbedding",
    .summary = "rows of a table, looked up by index and scaled",
    .math =
        "x [...] of integers, W [V, D], s a number in a buffer -> y [..., D] = s W[x].\n"
        "Saved: the indices x. Backward: the product's gradient, then a dense [V, D] one.",
    .parameters = {{"num_embeddings", ParameterType::size, "", "rows of the table"},
                   {"embedding_dim", ParameterType::size, "", "size of a row"}},
    .indices = true,
    .lower = lower,
    .example = {.call = "GemmaTextScaledWordEmbedding(1000, 32)",
                .input_shapes = {{4, 10}},
                .input_dtype = DType::int64,
                .output_shape = {4, 10, 32},
                .parameters = 32'000,
                .saved_bytes = 320,
                .derivation = "1000*32 parameters; 4*10 indices of 8 bytes are saved"},
};

const LayerDef* const kLayers[] = {&kScaledEmbedding};

}  // namespace

std::span<const LayerDef* const> scaled_embedding_layers() { return kLayers; }

}  // namespace gpuplan::layers
