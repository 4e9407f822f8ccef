// WhisperPositionIds, WhisperPositionalEmbedding, WhisperSinusoids: how Whisper numbers its tokens and frames.
//
// transformers 5, models/whisper/modeling_whisper.py: arange + the length of the cache, repeated for every sample. The
// table is not looked up by F.embedding but indexed, weight[position_ids], whose backward is index_put with
// accumulation. transformers 4.56 indexes one row of positions, which no layer says.

#include <string>

#include "estimator/aten/embedding.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/rearrange.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::whisper_positions {
namespace {

void lower_positions(LayerBuilder& b) {
  b.expect_rank(2, "[batch, tokens]");
  const Shape shape = b.shape(b.input());
  const TensorId first = aten::no_grad(b, Operator::arange, {}, {shape[1]}, DType::int64, {{Attribute::start, 0}});
  const TensorId shifted = aten::no_grad(b, Operator::add, {first}, {shape[1]}, DType::int64, {{Attribute::other, 0}});
  b.output(aten::no_grad(b, Operator::repeat, {shifted}, shape, DType::int64));
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

// modeling_whisper.py, sinusoids: log_timescale * arange, exp, arange by them, sin and cos, and both in one.
void lower_sinusoids(LayerBuilder& b) {
  const std::int64_t length = b.size("length"), waves = b.size("channels") / 2, width = size_of(b.run().precision);
  // log_timescale_increment divides by channels // 2 - 1.
  if (waves < 2 || b.size("channels") % 2 != 0)
    b.fail("channels", "sinusoids are sines and cosines of two frequencies or more",
           "expected an even number, 4 or more");
  const std::int64_t index_bytes = size_of(DType::int64), table = checked_mul(checked_mul(length, waves), width);
  ScratchProgram program;
  ScratchWriter w(program);
  const std::int64_t index = w.allocate(checked_mul(waves, index_bytes));
  const std::int64_t scaled = w.allocate(checked_mul(waves, width));
  w.release(index);
  const std::int64_t scales = w.allocate(checked_mul(waves, width));
  w.release(scaled);
  const std::int64_t times = w.allocate(checked_mul(length, index_bytes));
  const std::int64_t angles = w.allocate(table);
  w.release(times);
  const std::int64_t sine = w.allocate(table), cosine = w.allocate(table), both = w.allocate(checked_mul(table, 2));
  for (const std::int64_t done : {cosine, sine, scales, angles, both}) w.release(done);
  ModelBuilder(b).initialize(program);
  b.output(b.input());
}

const LayerDef kLayers[] = {
    {.name = "WhisperPositionIds",
     .summary = "the positions of the decoder's tokens, a row of them for every sample",
     .math = "tokens [b, s] (for their sizes) -> 0 .. s - 1 as int64 [b, s]. No gradient.",
     .indices = true,
     .lower = lower_positions,
     .example = {.call = "WhisperPositionIds()",
                 .input_shapes = {{2, 10}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
    {.name = "WhisperPositionalEmbedding",
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
                 .derivation = "448*32 parameters; the positions, 2*10*8 bytes"}},
    {.name = "WhisperSinusoids",
     .summary = "notes that the constructor fills the encoder's positions with sinusoids",
     .math = "y = x: the same tensor. Computing them leaves cached segments behind, which the steps reuse.",
     .parameters = {{"length", ParameterType::size, "", "rows of the table"},
                    {"channels", ParameterType::size, "", "size of a row"}},
     .lower = lower_sinusoids,
     .example = {.call = "WhisperSinusoids(1500, 512)",
                 .input_shapes = {{2, 1500, 512}},
                 .derivation = "nothing happens in a step"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::whisper_positions
