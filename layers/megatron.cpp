// MegatronLinear, MegatronEmbedding, MegatronQueryKeyValue, MegatronSwiGLU, MegatronBuffer: Megatron-core's modules of
// its local specification (megatron/core 0.16, get_gpt_layer_local_spec), without Apex and Transformer Engine.
//
// Sizes are those of a rank. Of tensor parallelism, all-reduces are in place and allocate nothing
// (tensor_parallel/mappings.py, _reduce). Hidden states lie as [tokens, batch, features].

#include <array>
#include <vector>

#include "estimator/aten/embedding.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::megatron {
namespace {

// LinearWithGradAccumulationAndAsyncCommunication (tensor_parallel/layers.py): the gradient of the input comes before
// that of the weight. What `reduced` says is summed over the ranks, in place: the result (RowParallelLinear), or the
// gradient of the input (ColumnParallelLinear).
void lower_linear(LayerBuilder& b) {
  const TensorId x = b.input(0);
  const Shape in = b.shape(x);
  b.expect_rank(3, "[tokens, batch, features]");
  const std::int64_t k = b.size("in_features", in[2], "input features"), n = b.size("out_features");
  const bool own = b.input_count() == 1;
  const TensorId weight = own ? b.parameter("weight", {n, k}) : b.input(1);
  const bool sums = b.run().tensor_ranks > 1, by_row = b.boolean("row");
  const DType dtype = b.dtype(x);
  const bool gathers = sums && !by_row && b.boolean("sequence");
  const Shape all{in[0] * (gathers ? b.run().tensor_ranks : 1), in[1], k}, out{all[0], all[1], n};
  const Gemm product{.m = all[0] * all[1], .n = n, .k = k, .dtype = dtype};
  TensorId whole = x;
  if (gathers) {  // GlobalMemoryBuffer's "mpu"
    whole = ModelBuilder(b).constant(all, dtype);
    b.emit_many(Operator::all_gather, Marker{}, {whole, x}, {});
  }
  TensorId y = b.emit(Operator::mm, product, {whole, weight}, out, dtype);
  if (sums && by_row) y = b.emit_in_place(Operator::all_reduce, Copy{out.elements()}, {y});
  if (NodeBuilder node = b.node("LinearWithGradAccumulationAndAsyncCommunicationBackward", y, {x, weight})) {
    Gemm of_x{.m = product.m, .n = k, .k = n, .dtype = dtype},
        of_weight{.m = n, .n = k, .k = product.m, .dtype = dtype};
    of_x.gradient = GemmGradient::of_first;
    of_weight.gradient = GemmGradient::of_second;
    node.save(x);
    if (gathers) node.run_in_place(Operator::all_gather, Marker{}, {whole, x});
    const Operand dx = node.run(Operator::mm, of_x, {node.grad(), weight}, all, dtype);
    Operand part = dx;
    if (gathers)
      part = node.run(Operator::reduce_scatter, Marker{}, {dx}, in, dtype);
    else if (sums && !by_row)
      node.run_in_place(Operator::all_reduce, Copy{in.elements()}, {dx});
    const Operand dy = node.contiguous(node.grad());
    const Operand dw = node.run(Operator::mm, of_weight, {dy, whole}, {n, k}, dtype);
    if (gathers) node.hold({dx});
    node.give(x, part);
    node.give(weight, dw);
  }
  b.output(y);
}

// reduce_scatter_embeddings: [b, s, h] as [s, b, h], of which the rank has the sum of its part. What follows clones it.
TensorId scattered(LayerBuilder& b, TensorId y) {
  const TensorId whole = aten::contiguous(b, aten::transpose(b, y, 0, 1));
  const Shape all = b.shape(whole);
  if (all[0] % b.run().tensor_ranks != 0) b.fail("the ranks do not divide the tokens");
  const Shape part{all[0] / b.run().tensor_ranks, all[1], all[2]};
  const TensorId sum = b.emit(Operator::reduce_scatter, Marker{}, {whole}, part, b.dtype(whole));
  if (NodeBuilder node = b.node("_ReduceScatterToSequenceParallelRegionBackward", sum, {whole}))
    node.give(whole, node.run(Operator::all_gather, Marker{}, {node.grad()}, all, b.dtype(whole)));
  return sum;
}

// VocabParallelEmbedding: other ranks' tokens are masked, and the results summed in place.
void lower_embedding(LayerBuilder& b) {
  const std::int64_t rows = b.size("num_embeddings"), features = b.size("embedding_dim");
  const TensorId weight = b.parameter("weight", {rows, features}), tokens = b.input();
  if (b.run().tensor_ranks == 1) return b.output(aten::embedding(b, weight, tokens));
  const Shape at = b.shape(tokens);
  const DType type = b.dtype(tokens);
  const TensorId below = aten::no_grad(b, Operator::lt, {tokens}, at, DType::boolean);
  const TensorId above = aten::no_grad(b, Operator::ge, {tokens}, at, DType::boolean);
  const TensorId mask = aten::no_grad(b, Operator::logical_or, {below, above}, at, DType::boolean);
  const TensorId copy = b.emit(Operator::clone, Copy{at.elements()}, {tokens}, at, type);
  const TensorId own = aten::no_grad(b, Operator::sub, {copy}, at, type);
  b.emit_in_place(Operator::masked_fill_, Elementwise{at.elements()}, {own, mask});
  const TensorId found = aten::embedding(b, weight, own);
  const TensorId zero = b.emit(Operator::full, Fill{1}, {}, Shape{}, b.dtype(found));
  const TensorId y = aten::masked_fill(b, found, aten::unsqueeze(b, mask, 2), 0, true);
  b.hold({zero});
  if (b.boolean("sequence")) {
    const TensorId part = scattered(b, y);
    b.hold({mask, own});
    return b.output(aten::clone(b, part));
  }
  const TensorId sum = b.emit_in_place(Operator::all_reduce, Copy{b.elements(y)}, {y});
  if (NodeBuilder node = b.node("_ReduceFromModelParallelRegionBackward", sum, {y})) node.give(y, node.grad());
  b.output(sum);
  b.hold({mask, own});
}

// attention.py, get_query_key_value_tensors: [s, b, groups * (heads / groups + 2) * d] is split within each group.
void lower_query_key_value(LayerBuilder& b) {
  const TensorId mixed = b.input();
  const Shape in = b.shape(mixed);
  const std::int64_t groups = b.size("groups"), d = b.size("head");
  const std::int64_t each = in[2] / groups, of_query = each - 2 * d;
  if (in[2] % groups != 0 || of_query < d || of_query % d != 0)
    b.fail("expects query heads, a key and a value of size " + std::to_string(d) + " of each of " +
           std::to_string(groups) + " groups, got " + to_string(in));
  const TensorId grouped = aten::view(b, mixed, {in[0], in[1], groups, each});
  const std::array<std::int64_t, 3> sizes{of_query, d, d};
  const std::vector<TensorId> parts = aten::split(b, grouped, 3, sizes, "SplitWithSizesBackward0");
  const TensorId query = aten::reshape(b, parts[0], {in[0], in[1], groups * of_query / d, d});
  b.outputs({query, parts[1], parts[2]});
}

// fused_bias_swiglu.py, SwiGLUFunction: a kernel each way, which torch.compile makes. Saves its input.
void lower_swiglu(LayerBuilder& b) {
  const TensorId x = b.input();
  Shape out = b.shape(x);
  if (out.rank() < 1 || out[-1] % 2 != 0) b.fail("expects two halves [..., 2 n], got " + to_string(out));
  out.set(-1, out[-1] / 2);
  OpaqueKernel forward, backward;
  forward.elementwise_flops = 5 * out.elements();
  backward.elementwise_flops = 12 * out.elements();
  const TensorId y = b.emit(Operator::triton, forward, {x}, out, b.dtype(x));
  if (NodeBuilder node = b.node("SwiGLUFunctionBackward", y, {x}))
    node.give(x, node.run(Operator::triton, backward, {node.grad(), x}, b.shape(x), b.dtype(x)));
  b.output(y);
}

// GlobalMemoryBuffer (utils.py): made where it is first read, and kept.
void lower_buffer(LayerBuilder& b) {
  b.output(ModelBuilder(b).constant(Shape{checked_mul(b.size("elements"), b.batch())}, b.run().precision));
}

const LayerDef kLayers[] = {
    {.name = "MegatronLinear",
     .summary = "a linear layer of Megatron-core, of one rank's sizes",
     .math = "x [s, b, k], W [n, k] -> y [s, b, n]; the gradient of x is computed before that of W.\n"
             "Saved: x and W. A second input is a weight that it shares.",
     .parameters = {{"in_features", ParameterType::size, "", "size of the last input dimension, or _"},
                    {"out_features", ParameterType::size, "", "size of the last output dimension"},
                    {"row", ParameterType::boolean, "False", "RowParallelLinear: ranks sum the result"},
                    {"sequence", ParameterType::boolean, "False", "ColumnParallelLinear of the rank's part of tokens"}},
     .max_inputs = 2,
     .lower = lower_linear,
     .example = {.call = "MegatronLinear(64, 32)",
                 .input_shapes = {{10, 2, 64}},
                 .output_shape = {10, 2, 32},
                 .parameters = 2'048,
                 .forward_macs = 40'960,
                 .backward_macs = 81'920,
                 .saved_bytes = 5'120,
                 .derivation = "64*32 parameters; 10*2*64*32 multiply-adds; x is 10*2*64*4 bytes"}},
    {.name = "MegatronEmbedding",
     .summary = "Megatron-core's VocabParallelEmbedding, of one rank's rows",
     .math = "tokens [b, s], W [rows, features] -> [b, s, features]; with other ranks, tokens of theirs are masked.\n"
             "Saved: the tokens, and the mask.",
     .parameters = {{"num_embeddings", ParameterType::size, "", "rows of this rank"},
                    {"embedding_dim", ParameterType::size, "", "features"},
                    {"sequence", ParameterType::boolean, "False",
                     "ranks have part of the tokens each: [s / n, b, features]"}},
     .indices = true,
     .lower = lower_embedding,
     .example = {.call = "MegatronEmbedding(100, 64)",
                 .input_shapes = {{2, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {2, 10, 64},
                 .parameters = 6'400,
                 .saved_bytes = 160,
                 .derivation = "100*64 parameters; the tokens are 2*10*8 bytes"}},
    {.name = "MegatronQueryKeyValue",
     .summary = "queries, keys and values of the one product that Megatron-core makes for all of them",
     .math = "x [s, b, g (h / g + 2) d] -> query [s, b, h, d], a copy where a group has several heads, key and value\n"
             "[s, b, g, d], views: name.0, name.1 and name.2. Saved: nothing.",
     .parameters = {{"groups", ParameterType::size, "", "query groups g"}, {"head", ParameterType::size, "", "d"}},
     .lower = lower_query_key_value,
     .example = {.call = "MegatronQueryKeyValue(2, 16)",
                 .input_shapes = {{10, 2, 128}},
                 .output_shape = {10, 2, 4, 16},
                 .derivation = "two heads a group: (2 + 2) * 16 * 2 = 128"}},
    {.name = "MegatronSwiGLU",
     .summary = "SiLU of the first half times the second one, as Megatron-core has torch.compile fuse it",
     .math = "x [..., 2 n] -> [..., n]. Saved: x.",
     .lower = lower_swiglu,
     .example = {.call = "MegatronSwiGLU()",
                 .input_shapes = {{10, 2, 64}},
                 .output_shape = {10, 2, 32},
                 .saved_bytes = 5'120,
                 .derivation = "x is 10*2*64*4 bytes"}},
    {.name = "MegatronBuffer",
     .summary = "the buffer that Megatron-core's attention scores are computed beside, made once",
     .math = "x -> [elements b]: of the type of the model, made by the first step and kept. x is not read.",
     .parameters = {{"elements", ParameterType::size, "", "of a sample"}},
     .indices = true,
     .lower = lower_buffer,
     .example = {.call = "MegatronBuffer(64)",
                 .input_shapes = {{2, 10}},
                 .input_dtype = DType::int64,
                 .output_shape = {128},
                 .derivation = "of a batch of 2; nothing is computed"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::megatron
