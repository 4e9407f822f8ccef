// LigerRMSNorm, LigerSiLUMul, LigerRotary, LigerHead, LigerCausalLMLoss: Liger-Kernel's Triton kernels in Hugging
// Face's decoders (liger_kernel 0.8.5, ops/rms_norm.py, swiglu.py, rope.py, fused_linear_cross_entropy.py).
//
// Each is a torch.autograd.Function. Its kernels need nothing but their results, and write gradients over what is there
// already: over the gradient that arrives, over what the forward saved, or, of the loss, over what the forward computed
// of them. The loss never has the logits of all tokens: chunk after chunk is multiplied by the head's weight.

#include <algorithm>
#include <array>
#include <bit>

#include "estimator/aten/cross_entropy.h"
#include "estimator/aten/linear.h"
#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::liger {
namespace {

OpaqueKernel kernel_of(std::int64_t elements) {
  OpaqueKernel kernel;
  kernel.elementwise_flops = elements;
  return kernel;
}

// 1 / rms of each row in fp32 is kept; the weight's gradient is a row of fp32 for each multiprocessor, which are
// summed.
void lower_norm(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape shape = b.shape(x);
  if (shape.rank() < 1) b.fail("expects an input [..., features]");
  const std::int64_t features = b.size("hidden_size", shape[-1], "input features");
  const TensorId weight = b.parameter("weight", {features});
  const std::int64_t rows = shape.elements() / features;
  const std::array<OutputSpec, 2> made{OutputSpec{shape, b.dtype(x), Placing::contiguous},
                                       OutputSpec{{rows}, DType::fp32, Placing::contiguous}};
  const std::vector<TensorId> y = b.emit_many(Operator::triton, kernel_of(4 * shape.elements()), {x, weight}, made);
  if (NodeBuilder node = b.node("LigerRMSNormFunctionBackward", y[0], {x, weight})) {
    const Operand dy = node.contiguous(node.grad());
    const OpaqueKernel kernel = kernel_of(8 * shape.elements());
    const std::array<Operand, 4> reads{dy, x, weight, y[1]};
    if (node.needs(weight)) {
      const Operand sums =
          node.run(Operator::triton, kernel, reads, {{b.gpu().sm_count, features}, DType::fp32, Placing::contiguous});
      const Reduction sum{
          .shape = {b.gpu().sm_count, features}, .reduced = 1, .input = DType::fp32, .output = DType::fp32};
      const Operand dw = node.cast(node.run(Operator::sum, sum, {sums}, Shape{features}, DType::fp32), b.dtype(weight));
      node.hold({sums});
      node.give(weight, dw);
    } else {
      node.run_in_place(Operator::triton_, kernel, reads);
    }
    if (node.needs(x)) node.give(x, node.view(dy));
  }
  b.output(y[0]);
}

void lower_gated(LayerBuilder& b) {
  const TensorId gate = b.input(0), up = b.input(1);
  if (b.shape(gate) != b.shape(up) || b.dtype(gate) != b.dtype(up))
    b.fail("expects two inputs of one shape and type, got " + to_string(b.shape(gate)) + " and " +
           to_string(b.shape(up)));
  const std::int64_t elements = b.elements(gate);
  const TensorId y = b.emit(Operator::triton, kernel_of(5 * elements), {gate, up},
                            {b.shape(gate), b.dtype(gate), Placing::contiguous});
  if (NodeBuilder node = b.node("LigerSiLUMulFunctionBackward", y, {gate, up})) {
    node.run_in_place(Operator::triton_, kernel_of(9 * elements), {node.contiguous(node.grad()), gate, up});
    for (const TensorId t : {gate, up})
      if (node.needs(t)) node.give(t, node.in_saved(t, t));
  }
  b.output(y);
}

// [b, heads, s, d] as it lies, [b, s, heads, d]: its kernel writes there, forward and backward.
void lower_rotary(LayerBuilder& b) {
  const TensorId query = b.input(0), key = b.input(1), cosine = b.input(2), sine = b.input(3);
  for (const TensorId t : {query, key})
    if (b.shape(t).rank() != 4)
      b.fail("expects queries and keys [batch, heads, tokens, size], got " + to_string(b.shape(t)));
  const std::int64_t elements = b.elements(query) + b.elements(key);
  const TensorId turned = b.emit_in_place(Operator::triton_, kernel_of(3 * elements), {query, key, cosine, sine});
  const TensorId turned_key = b.emit_in_place(Operator::triton_, OpaqueKernel{}, {key});
  if (NodeBuilder node = b.node("LigerRopeFunctionBackward", {turned, turned_key}, {query, key})) {
    const std::array<int, 4> order{0, 2, 1, 3};
    const auto as_it_lies = [&](int k) { return node.contiguous(node.permute(node.grad(k), order)); };
    const Operand of_query = as_it_lies(0), of_key = as_it_lies(1);
    node.run_in_place(Operator::triton_, kernel_of(3 * elements), {of_query, of_key, cosine, sine});
    if (node.needs(query)) node.give(query, node.permute(of_query, order));
    if (node.needs(key)) node.give(key, node.permute(of_key, order));
  }
  b.outputs({turned, turned_key});
}

// Trainer.prediction_step() says skip_logits where nobody asks for them.
bool skips_logits(const RunConfig& run) {
  return run.mode == Mode::train || (run.evaluates && run.like == Like::trainer && !run.evaluation.keeps_logits);
}

// Where the model computes its loss, its head is not called: the loss takes its weight.
void lower_head(LayerBuilder& b) {
  b.expect_rank(3, "[batch, tokens, features]");
  const Shape in = b.shape(b.input());
  const TensorId weight = b.parameter("weight", {b.size("vocabulary"), in[-1]});
  if (skips_logits(b.run())) return b.outputs({b.input(), weight});
  b.output(aten::linear(b, b.input(), weight, kNone));
}

// The loop over chunks of fused_linear_cross_entropy_forward.
class Chunks {
 public:
  Chunks(LayerBuilder& b, TensorId x, TensorId weight) : b_(b), x_(x), weight_(weight) {
    const Shape w = b.shape(weight);
    vocabulary_ = w[0], features_ = w[1];
    rows_ = b.elements(x) / features_;
    const std::int64_t parts = (vocabulary_ + features_ - 1) / features_;
    const auto each = static_cast<std::uint64_t>((rows_ + parts - 1) / parts);
    chunk_ = std::min(static_cast<std::int64_t>(std::bit_ceil(each)), rows_);
    type_ = b.autocast().value_or(b.dtype(weight));
    converts_ = b.dtype(x) != type_ || b.dtype(weight) != type_;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t features() const { return features_; }

  void run(TensorId targets, TensorId losses, TensorId grad_x, TensorId grad_weight) {
    TensorId storage = kNone;
    if (!converts_) storage = zeros({chunk_, vocabulary_}, type_);
    for (std::int64_t from = 0; from < rows_; from += chunk_) {
      const std::int64_t rows = std::min(chunk_, rows_ - from);
      const TensorId logits = converts_ ? converted_logits(rows) : logits_in(storage, rows);
      b_.emit_in_place(Operator::triton_, kernel_of(6 * rows * vocabulary_), {logits, targets, losses});
      if (grad_x != kNone) give_input(grad_x, logits, rows);
      if (grad_weight != kNone) add_to(grad_weight, logits, rows);
    }
  }

  TensorId zeros(const Shape& shape, DType dtype) {
    return b_.emit(Operator::zeros, Fill{shape.elements()}, {}, shape, dtype);
  }

 private:
  Gemm product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return {.m = m, .n = n, .k = k, .dtype = type_};
  }
  TensorId converted(TensorId t, const Shape& shape) {
    if (b_.dtype(t) == type_) return t;
    return b_.emit(Operator::_to_copy, Elementwise{shape.elements(), 0}, {t}, {shape, type_, Placing::contiguous});
  }

  TensorId logits_in(TensorId storage, std::int64_t rows) {
    return b_.emit_in_place(Operator::mm_out, product(rows, vocabulary_, features_), {storage, x_, weight_});
  }
  // weight.t() is a view, which autocast's cache does not keep.
  TensorId converted_logits(std::int64_t rows) {
    const TensorId w = converted(weight_, b_.shape(weight_));
    const TensorId x = converted(x_, {rows, features_});
    return b_.emit(Operator::mm, product(rows, vocabulary_, features_), {x, w}, {rows, vocabulary_}, type_);
  }

  // grad_input[from:to] = grad_logits @ weight
  void give_input(TensorId grad_x, TensorId logits, std::int64_t rows) {
    Gemm gemm = product(rows, features_, vocabulary_);
    gemm.gradient = GemmGradient::of_first;
    if (!converts_) {
      b_.emit_in_place(Operator::mm_out, gemm, {grad_x, logits, weight_});
      return;
    }
    const TensorId w = b_.cached_cast(weight_);
    const TensorId part = b_.emit(Operator::mm, gemm, {logits, w}, {rows, features_}, type_);
    b_.emit_in_place(Operator::copy_, Copy{rows * features_}, {grad_x, part});
  }

  // addmm() into it, but of fp32 a product of its own that is added.
  void add_to(TensorId grad_weight, TensorId logits, std::int64_t rows) {
    Gemm gemm = product(vocabulary_, features_, rows);
    gemm.gradient = GemmGradient::of_second;
    if (type_ != DType::fp32) {
      const TensorId x = converted(x_, {rows, features_});
      b_.emit_in_place(Operator::mm_out, gemm, {grad_weight, logits, x});
      return;
    }
    const TensorId part = b_.emit(Operator::mm, gemm, {logits, x_}, b_.shape(weight_), type_);
    b_.emit_in_place(Operator::add_, Elementwise{vocabulary_ * features_, 1}, {grad_weight, part});
  }

  LayerBuilder& b_;
  TensorId x_, weight_;
  std::int64_t vocabulary_ = 0, features_ = 0, rows_ = 0, chunk_ = 0;
  DType type_ = DType::fp32;  // of the products
  bool converts_ = false;
};

// torch.equal(grad_output, torch.tensor(1.0)): the number, and two answers.
OpaqueKernel comparison_with_one() {
  ScratchProgram program;
  ScratchWriter scratch(program);
  scratch.allocate(size_of(DType::fp32));
  scratch.allocate(1);
  scratch.allocate(1);
  scratch.release_all();
  return aten::opaque_kernel(program);
}

TensorId fused_loss(LayerBuilder& b, TensorId x, TensorId weight, TensorId targets) {
  Chunks chunks(b, x, weight);
  const bool differentiates = b.requires_grad(x), before = b.leave_grad(true);
  const TensorId grad_x = chunks.zeros({chunks.rows(), chunks.features()}, b.dtype(x));
  const bool trained = differentiates && b.trained(weight);
  const TensorId grad_weight = trained ? chunks.zeros(b.shape(weight), b.dtype(weight)) : kNone;
  const TensorId losses = chunks.zeros({chunks.rows()}, DType::fp32);
  const TensorId counted = aten::no_grad(b, Operator::eq, {targets}, {chunks.rows()}, DType::boolean);
  b.hold({aten::reduce(b, counted, 1, false, false)});  // .item()
  chunks.run(targets, losses, differentiates ? grad_x : kNone, grad_weight);
  b.hold({grad_x});
  const TensorId loss = aten::reduce(b, losses, 1, false, false);
  b.hold({counted, losses});
  b.leave_grad(before);
  NodeBuilder node = b.node("LigerFusedLinearCrossEntropyFunctionBackward", loss, {x, weight});
  if (!node) return loss;
  node.run_in_place(Operator::triton_, comparison_with_one(), {node.grad(), grad_x});
  if (trained) node.save(grad_weight);
  if (node.needs(x)) node.give(x, node.in_saved(grad_x, x));
  if (node.needs(weight)) node.give(weight, node.in_saved(grad_weight, weight));
  return loss;
}

void lower_loss(LayerBuilder& b) {
  const TensorId x = b.input(0);
  const TensorId labels = ModelBuilder(b).labels(0);
  if (b.input_count() == 1) return b.output(aten::causal_lm_loss(b, x, labels));  // evaluation: of the head's logits
  b.expect_rank(3, "[batch, tokens, features]");
  const std::int64_t rows = b.shape(x).elements(0, 2);
  if (b.shape(labels).rank() != 2 || b.elements(labels) != rows)
    b.fail("expects the features of every token of the model's first input " + to_string(b.shape(labels)) + ", got " +
           to_string(b.shape(x)));
  TensorId padded = kNone;
  const TensorId targets = aten::view(b, aten::shifted_labels(b, labels, padded), {rows});
  const TensorId flat = aten::view(b, x, {rows, b.shape(x)[-1]});
  const TensorId loss = fused_loss(b, flat, b.input(1), targets);
  b.hold({padded, targets});
  b.output(loss);
  ModelBuilder(b).returns_loss_alone(loss);
}

const LayerDef kLayers[] = {
    {.name = "LigerRMSNorm",
     .summary = "root-mean-square norm over the last dimension, as Liger-Kernel's Triton kernel computes it",
     .math =
         "y = w * x * rsqrt(mean(x^2) + eps); [..., n] -> [..., n], w [n]. Saved: x, and 1 / rms of each row in fp32.\n"
         "The gradient of x is written over that of y.",
     .parameters = {{"hidden_size", ParameterType::size, "", "size of the last dimension, or _"},
                    {"eps", ParameterType::real, "1e-6", "added to the mean square"}},
     .lower = lower_norm,
     .example = {.call = "LigerRMSNorm(64)",
                 .input_shapes = {{2, 10, 64}},
                 .parameters = 64,
                 .saved_bytes = 5'200,
                 .derivation = "x is 2*10*64*4 bytes, the factors of 2*10 rows are 80"}},
    {.name = "LigerSiLUMul",
     .summary = "SiLU(gate) * up, as Liger-Kernel's Triton kernel computes it",
     .math = "gate, up [..., n] -> [..., n]. Saved: both, over which their gradients are written.",
     .min_inputs = 2,
     .lower = lower_gated,
     .example = {.call = "LigerSiLUMul()",
                 .input_shapes = {{2, 10, 64}, {2, 10, 64}},
                 .output_shape = {2, 10, 64},
                 .saved_bytes = 10'240,
                 .derivation = "both inputs, 2*10*64*4 bytes each"}},
    {.name = "LigerRotary",
     .summary = "rotary position embedding, written over queries and keys by Liger-Kernel's Triton kernel",
     .math = "q [b, h, s, d], k [b, g, s, d], cos and sin [1, s, d] -> name.0 and name.1, in the memory of q and k.\n"
             "Saved: cos and sin.",
     .min_inputs = 4,
     .lower = lower_rotary,
     .example = {.call = "LigerRotary()",
                 .input_shapes = {{2, 4, 10, 16}, {2, 2, 10, 16}, {1, 10, 16}, {1, 10, 16}},
                 .output_shape = {2, 4, 10, 16},
                 .saved_bytes = 1'280,
                 .derivation = "cos and sin, 10*16*4 bytes each"}},
    {.name = "LigerHead",
     .summary = "the head of a language model, of which LigerCausalLMLoss takes the weight in training",
     .math = "x [b, s, h], W [V, h] -> x and W in training, x W^T in inference.",
     .parameters = {{"vocabulary", ParameterType::size, "", "size of the vocabulary"}},
     .lower = lower_head,
     .example = {.call = "LigerHead(32)",
                 .input_shapes = {{2, 10, 16}},
                 .output_shape = {2, 10, 16},
                 .parameters = 512,
                 .derivation = "the features themselves; 32*16 parameters"}},
    {.name = "LigerCausalLMLoss",
     .summary = "cross entropy of each token's prediction of the next one without the logits of all tokens",
     .math = "x [b, s, h] and the head's weight [V, h], labels: the model's first input [b, s] -> the mean of\n"
             "-log softmax(x W^T)[next token]. The forward computes the gradients, chunk by chunk of tokens.\n"
             "Saved: the gradients of x and of W, if it is trained.",
     .max_inputs = 2,
     .loss = true,
     .in_model = true,
     .lower = lower_loss,
     .example = {.call = "LigerCausalLMLoss()",
                 .input_shapes = {{2, 10, 16}, {32, 16}},
                 .output_shape = {},
                 .forward_macs = 20'480,
                 .saved_bytes = 1'280,
                 .derivation = "the gradient of 2*10 rows of 16 features, 4 bytes each; two products of 20*32*16"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::liger
