// OPTPositionIds, OPTLearnedPositionalEmbedding: how OPT numbers its tokens.
//
// transformers 5, models/opt/modeling_opt.py. Without an attention mask the decoder makes one of ones in fp32, which
// its forward holds; positions are its cumulative sum times the mask, less one, as int64. The table of positions has
// two rows more, and looks up positions + 2, which its autograd node saves.

#include "estimator/aten/embedding.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/scan.h"

namespace gpuplan::layers::opt_positions {
namespace {

constexpr std::int64_t kOffset = 2;

void lower_positions(LayerBuilder& b) {
  b.expect_rank(2, "[batch, tokens]");
  const Shape shape = b.shape(b.input());
  const TensorId ones = aten::no_grad(b, Operator::ones, {}, shape, DType::fp32);
  const TensorId sums = aten::cumsum(b, ones, 1);
  const TensorId masked = aten::no_grad(b, Operator::mul, {sums, ones}, shape, DType::fp32);
  const TensorId numbers = aten::no_grad(b, Operator::sub, {masked}, shape, DType::fp32, {{Attribute::other, 1}});
  const TensorId positions = aten::no_grad(b, Operator::to, {numbers}, shape, DType::int64);
  b.hold({sums});  // `position_ids` until it is bound anew
  b.outputs({positions, ones});
}

void lower_embedding(LayerBuilder& b) {
  if (b.dtype(b.input()) != DType::int64)
    b.fail("expects positions, its input is " + std::string(name_of(b.dtype(b.input()))));
  const Shape in = b.shape(b.input());
  if (in.rank() > 0) aten::expect_learned_positions(b, "num_embeddings", b.size("num_embeddings"), in[-1]);
  const std::int64_t rows = b.size("num_embeddings") + kOffset;
  const TensorId weight = b.parameter("weight", {rows, b.size("embedding_dim")});
  const TensorId positions =
      aten::no_grad(b, Operator::add, {b.input()}, b.shape(b.input()), DType::int64, {{Attribute::other, kOffset}});
  const TensorId y = aten::embedding(b, weight, positions);
  b.hold({positions});
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "OPTPositionIds",
     .summary = "the positions that OPT computes as a running sum over a mask of ones",
     .math = "tokens [b, s] (for their sizes) -> positions [b, s] int64 and the ones [b, s] they were counted in.",
     .indices = true,
     .lower = lower_positions,
     .example = {.call = "OPTPositionIds()",
                 .input_shapes = {{2, 10}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
    {.name = "OPTLearnedPositionalEmbedding",
     .summary = "rows of a table of positions that begins with two unused ones",
     .math = "x [b, s] int64, W [n + 2, D] -> y [b, s, D] = W[x + 2]. Saved: x + 2. Backward: a dense gradient of W.",
     .parameters = {{"num_embeddings", ParameterType::size, "", "n, the longest sequence"},
                    {"embedding_dim", ParameterType::size, "", "D, size of a row"}},
     .indices = true,
     .lower = lower_embedding,
     .example = {.call = "OPTLearnedPositionalEmbedding(100, 32)",
                 .input_shapes = {{4, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {4, 10, 32},
                 .parameters = 3'264,
                 .saved_bytes = 320,
                 .derivation = "(100 + 2)*32 parameters; 4*10 indices of 8 bytes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::opt_positions
