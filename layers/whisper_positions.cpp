// WhisperPositionIds, WhisperPositionalEmbedding: how Whisper's decoder numbers its tokens.
//
// transformers 5, models/whisper/modeling_whisper.py: arange + the length of the cache, repeated for every sample. The
// table is not looked up by F.embedding but indexed, weight[position_ids], whose backward is index_put with
// accumulation. transformers 4.56 indexes one row of positions, which no layer says.

#include <array>
#include <string>

#include "estimator/aten/embedding.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/rearrange.h"
#include "estimator/aten/views.h"

namespace gpuplan::layers::whisper_positions {
namespace {

void lower_positions(LayerBuilder& b) {
  b.expect_rank(2, "[batch, tokens]");
  const Shape shape = b.shape(b.input());
  const TensorId first = aten::no_grad(b, "aten::arange", {}, {shape[1]}, DType::int64, {0});
  const TensorId shifted = aten::no_grad(b, "aten::add", std::array{first}, {shape[1]}, DType::int64, {0});
  b.output(aten::no_grad(b, "aten::repeat", std::array{shifted}, shape, DType::int64));
}

void lower_embedding(LayerBuilder& b) {
  if (b.dtype(b.input()) != DType::int64)
    b.fail("expects positions, its input is " + std::string(name_of(b.dtype(b.input()))));
  const Shape in = b.shape(b.input());
  if (in.rank() != 2) b.fail("expects positions [batch, tokens]");
  aten::expect_learned_positions(b, "num_embeddings", b.size("num_embeddings"), in[1]);
  const std::int64_t features = b.size("embedding_dim");
  const TensorId weight = b.parameter("weight", {b.size("num_embeddings"), features});
  b.output(aten::view(b, aten::index_rows(b, weight, b.input()), {in[0], in[1], features}));
}

const LayerDef kPositions{
    .name = "WhisperPositionIds",
    .summary = "the positions of the decoder's tokens, a row of them for every sample",
    .math = "tokens [b, s] (for their sizes) -> 0 .. s - 1 as int64 [b, s]. No gradient.",
    .parameters = {},
    .indices = true,
    .lower = lower_positions,
    .example = {.call = "WhisperPositionIds()",
                .input_shapes = {{2, 10}},
                .input_dtype = DType::int64,
                .output_shape = {2, 10},
                .derivation = "nothing is saved"},
};

const LayerDef kEmbedding{
    .name = "WhisperPositionalEmbedding",
    .summary = "rows of a table of positions, by an index",
    .math =
        "positions [b, s] int64, W [n, d] -> W[positions] [b, s, d]. Saved: the positions. Backward: index_put with\n"
        "accumulation into zeros of W's size.",
    .parameters = {{"num_embeddings", ParameterType::size, "", "rows of the table"},
                   {"embedding_dim", ParameterType::size, "", "size of a row"}},
    .indices = true,
    .lower = lower_embedding,
    .example = {.call = "WhisperPositionalEmbedding(448, 32)",
                .input_shapes = {{2, 10}},
                .input_dtype = DType::int64,
                .output_shape = {2, 10, 32},
                .parameters = 14'336,
                .saved_bytes = 160,
                .derivation = "448*32 parameters; the positions, 2*10*8 bytes"},
};

const LayerDef* const kLayers[] = {&kPositions, &kEmbedding};

}  // namespace

std::span<const LayerDef* const> layers() { return kLayers; }

}  // namespace gpuplan::layers::whisper_positions
