// TELinear, TELayerNormLinear, TENorm: Transformer Engine's modules as Megatron-core 0.16 calls them, in bf16
// (transformer_engine/pytorch/module/linear.py, layernorm_linear.py and ops/basic/rmsnorm.py of 2.20, without
// Userbuffers and FP8; megatron/core/extensions/transformer_engine.py).
//
// Sizes are those of a rank. Products have a workspace of their own, which all of them share. With sequence parallelism
// a rank has part of the tokens between them: what a product needs whole is gathered before it, forward and backward,
// and its sum is scattered. Hidden states lie as [tokens, batch, features].

#include <array>
#include <vector>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"
#include "estimator/operators/transformer_engine.h"

namespace gpuplan::layers::transformer_engine {
namespace {

namespace rules = gpuplan::transformer_engine;

std::int64_t rows_of(const Shape& shape) { return shape.elements() / shape[-1]; }

// get_cublas_workspace(), which the first module makes: a layer's linear_proj is there before its linear_qkv.
void make_workspace(LayerBuilder& b) {
  constexpr std::string_view kName = "cublas_workspace";
  if (!ModelBuilder(b).has_buffer(kName)) b.buffer(kName, {rules::product_workspace(b.gpu())}, DType::uint8);
}

Gemm product_of(std::int64_t rows, std::int64_t columns, std::int64_t inner, DType dtype,
                GemmGradient gradient = GemmGradient::none) {
  Gemm product{.m = rows, .n = columns, .k = inner, .dtype = dtype};
  product.gradient = gradient;
  product.own_workspace = true;
  return product;
}

// Between the modules a rank has its part of the tokens, and within them all of them.
struct Tokens {
  Shape part, all;
  bool gathers = false;
};
Tokens tokens_of(const LayerBuilder& b, const Shape& part) {
  Tokens tokens{part, part, b.boolean("sequence") && b.run().tensor_ranks > 1};
  if (tokens.gathers) tokens.all.set(0, checked_mul(part[0], b.run().tensor_ranks));
  return tokens;
}

// rmsnorm_fwd: the reciprocal root of each row, in fp32, the result, and a workspace.
std::vector<TensorId> norm(LayerBuilder& b, TensorId x, TensorId weight) {
  const Shape shape = b.shape(x);
  ScratchProgram program;
  ScratchWriter writer(program);
  writer.result(2);
  writer.use(rules::rms_norm_workspace(rows_of(shape), shape[-1], b.gpu()));
  const std::array<OutputSpec, 2> outputs{OutputSpec{Shape{rows_of(shape)}, DType::fp32},
                                          OutputSpec{shape, b.dtype(x)}};
  return b.emit_many(Operator::triton, aten::opaque_kernel(program, 4 * shape.elements()), {x, weight}, outputs);
}

// rmsnorm_bwd: gradients of the input and the weight, and a workspace.
std::vector<Operand> norm_backward(NodeBuilder& node, const LayerBuilder& b, Operand gradient, TensorId x,
                                   TensorId reciprocal, TensorId weight) {
  const Shape shape = b.shape(x);
  ScratchProgram program;
  ScratchWriter writer(program);
  writer.result(2);
  writer.use(rules::rms_norm_backward_workspace(rows_of(shape), shape[-1], b.gpu()));
  const std::array<OutputSpec, 2> outputs{OutputSpec{shape, b.dtype(x)}, OutputSpec{b.shape(weight), b.dtype(weight)}};
  return node.run_many(Operator::triton, aten::opaque_kernel(program, 10 * shape.elements()),
                       {gradient, x, reciprocal, weight}, outputs);
}

void require_known(const LayerBuilder& b) {
  if (!rules::knows(b.gpu()))
    b.fail("Transformer Engine's workspaces are known on A100, Ada and Hopper, not on " + b.gpu().title +
           ": --transformer-impl local is planned on all GPUs");
}

// RowParallelLinear: its input is the rank's part of the features.
void lower_linear(LayerBuilder& b) {
  b.expect_rank(3, "[tokens, batch, features]");
  require_known(b);
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const std::int64_t k = b.size("in_features", in[2], "input features"), n = b.size("out_features");
  const TensorId weight = b.parameter("weight", {n, k});
  make_workspace(b);
  const bool shared = b.run().tensor_ranks > 1, scatters = shared && b.boolean("sequence");
  if (scatters && in[0] % b.run().tensor_ranks != 0) b.fail("the ranks do not divide the tokens");
  const DType dtype = b.dtype(x);
  const std::int64_t rows = rows_of(in);
  const Shape all{in[0], in[1], n}, part{in[0] / (scatters ? b.run().tensor_ranks : 1), in[1], n};
  TensorId y = b.emit(Operator::mm, product_of(rows, n, k, dtype), {x, weight}, all, dtype);
  if (scatters)
    y = b.emit(Operator::reduce_scatter, Marker{}, {y}, part, dtype);
  else if (shared)
    y = b.emit_in_place(Operator::all_reduce, Copy{all.elements()}, {y});
  if (NodeBuilder node = b.node("_LinearBackward", y, {x, weight})) {
    node.save(x);
    Operand dy = node.contiguous(node.grad());
    if (scatters) dy = node.run(Operator::all_gather, Marker{}, {dy}, all, dtype);
    const Operand dx =
        node.run(Operator::mm, product_of(rows, k, n, dtype, GemmGradient::of_first), {dy, weight}, in, dtype);
    const Operand dw =
        node.run(Operator::mm, product_of(n, k, rows, dtype, GemmGradient::of_second), {dy, x}, {n, k}, dtype);
    node.give(x, dx);
    node.give(weight, dw);
  }
  b.output(y);
}

void lower_norm_linear(LayerBuilder& b) {
  b.expect_rank(3, "[tokens, batch, features]");
  require_known(b);
  const TensorId x = b.input();
  const Tokens tokens = tokens_of(b, b.shape(x));
  const std::int64_t k = b.size("in_features", tokens.part[2], "input features"), n = b.size("out_features");
  const TensorId norm_weight = b.parameter("layer_norm_weight", {k}), weight = b.parameter("weight", {n, k});
  const DType dtype = b.dtype(x);
  const std::vector<TensorId> normed = norm(b, x, norm_weight);
  TensorId whole = normed[1];
  if (tokens.gathers) whole = b.emit(Operator::all_gather, Marker{}, {whole}, tokens.all, dtype);
  const std::int64_t rows = rows_of(tokens.all);
  const TensorId y = b.emit(Operator::mm, product_of(rows, n, k, dtype), {whole, weight},
                            Shape{tokens.all[0], tokens.all[1], n}, dtype);
  if (NodeBuilder node = b.node("_LayerNormLinearBackward", y, {x, norm_weight, weight})) {
    for (const TensorId t : {x, normed[0], normed[1]}) node.save(t);
    const Operand dy = node.contiguous(node.grad());
    Operand again = normed[1];
    if (tokens.gathers) again = node.run(Operator::all_gather, Marker{}, {normed[1]}, tokens.all, dtype);
    const Operand dx =
        node.run(Operator::mm, product_of(rows, k, n, dtype, GemmGradient::of_first), {dy, weight}, tokens.all, dtype);
    Operand of_normed = dx;
    if (tokens.gathers)
      of_normed = node.run(Operator::reduce_scatter, Marker{}, {dx}, tokens.part, dtype);
    else if (b.run().tensor_ranks > 1)
      node.run_in_place(Operator::all_reduce, Copy{tokens.all.elements()}, {dx});
    const Operand dw =
        node.run(Operator::mm, product_of(n, k, rows, dtype, GemmGradient::of_second), {dy, again}, {n, k}, dtype);
    node.clear(normed[1]);  // clear_tensor_data(ln_out)
    const std::vector<Operand> of_norm = norm_backward(node, b, of_normed, x, normed[0], norm_weight);
    node.hold({dx});
    node.give(x, of_norm[0]);
    node.give(norm_weight, of_norm[1]);
    node.give(weight, dw);
  }
  b.output(y);
}

// What _OperationFuserAutogradFunction returns is a view, to which no other gradient is added in place.
void lower_norm(LayerBuilder& b) {
  require_known(b);
  const TensorId x = b.input();
  const TensorId weight = b.parameter("weight", {b.shape(x)[-1]});
  const std::vector<TensorId> normed = norm(b, x, weight);
  if (NodeBuilder node = b.node("_OperationFuserAutogradFunctionBackward", normed[1], {x, weight})) {
    for (const TensorId t : {x, normed[0]}) node.save(t);
    const std::vector<Operand> gradients = norm_backward(node, b, node.grad(), x, normed[0], weight);
    node.give(x, node.view(gradients[0]));
    node.give(weight, gradients[1]);
  }
  b.output(normed[1]);
}

const ParameterDef kSequence{"sequence", ParameterType::boolean, "False", "ranks have part of the tokens each"};

const LayerDef kLayers[] = {
    {.name = "TELinear",
     .summary = "Transformer Engine's Linear as Megatron-core's row-parallel layer, of one rank's sizes",
     .math = "x [s, b, k], W [n, k] -> y [s, b, n], summed over the ranks. Saved: x and W.",
     .parameters = {{"in_features", ParameterType::size, "", "size of the last input dimension, or _"},
                    {"out_features", ParameterType::size, "", "size of the last output dimension"},
                    kSequence},
     .lower = lower_linear,
     .example = {.call = "TELinear(64, 32)",
                 .input_shapes = {{10, 2, 64}},
                 .output_shape = {10, 2, 32},
                 .parameters = 2'048,
                 .forward_macs = 40'960,
                 .backward_macs = 81'920,
                 .saved_bytes = 5'120,
                 .derivation = "64*32 parameters; 10*2*64*32 multiply-adds; x is 10*2*64*4 bytes"}},
    {.name = "TELayerNormLinear",
     .summary = "Transformer Engine's LayerNormLinear with RMSNorm, as Megatron-core's column-parallel layer",
     .math = "x [s, b, k], g [k], W [n, k] -> rms_norm(x) g W^T [s, b, n].\n"
             "Saved: x, the normalized x, a reciprocal root a row in fp32, g and W.",
     .parameters = {{"in_features", ParameterType::size, "", "size of the last input dimension, or _"},
                    {"out_features", ParameterType::size, "", "size of the last output dimension"},
                    kSequence},
     .lower = lower_norm_linear,
     .example = {.call = "TELayerNormLinear(64, 32)",
                 .input_shapes = {{10, 2, 64}},
                 .output_shape = {10, 2, 32},
                 .parameters = 2'112,
                 .forward_macs = 40'960,
                 .backward_macs = 81'920,
                 .saved_bytes = 10'320,
                 .derivation = "64 + 64*32 parameters; 10*2*64*32 multiply-adds; x and the normalized x are 10*2*64*4 "
                               "bytes each, and a root a row 10*2*4"}},
    {.name = "TENorm",
     .summary = "Transformer Engine's RMSNorm by itself",
     .math = "x [..., k], g [k] -> rms_norm(x) g. Saved: x and a reciprocal root a row in fp32.",
     .lower = lower_norm,
     .example = {.call = "TENorm()",
                 .input_shapes = {{10, 2, 64}},
                 .parameters = 64,
                 .saved_bytes = 5'200,
                 .derivation = "x is 10*2*64*4 bytes, and a root a row 10*2*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::transformer_engine
