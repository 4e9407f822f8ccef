#include <utility>

#include "estimator/operators/attention_call.h"
#include "estimator/operators/attention_kernels.h"

namespace gpuplan {
namespace {

using enum AttentionValue;

/// The gradients of query, key and value as the kernel returns them.
struct Gradients {
  StridedTensor query, key, value;
};

void results(const FusedCall& c, const Gradients& g, ProgramWriter& program) {
  const auto name = [&](AttentionValue plain, AttentionValue padded) { return c.pads_heads ? padded : plain; };
  program.result(attention_output(name(grad_query, padded_grad_query), g.query, c.call.dtype));
  program.result(attention_output(name(grad_key, padded_grad_key), g.key, c.call.dtype));
  program.result(attention_output(name(grad_value, padded_grad_value), g.value, c.call.dtype));
}

/// tensor.contiguous() of its [batch, length, heads, size] view.
std::int64_t contiguous_copy(const StridedTensor& tensor, DType dtype, ProgramWriter& program) {
  return is_contiguous(tensor, kBatchLengthHeads) ? ProgramWriter::kNothing
                                                  : program.scratch(bytes_of(tensor.shape, dtype));
}

/// Gradients of key and value with a head for each query head, summed over the groups afterwards.
std::array<std::int64_t, 2> ungrouped_gradients(const FusedCall& c, ProgramWriter& program) {
  if (!c.grouped()) return {ProgramWriter::kNothing, ProgramWriter::kNothing};
  const std::int64_t key = program.scratch(bytes_of({c.batch, c.heads, c.keys, c.head_size}, c.call.dtype));
  const std::int64_t value = program.scratch(bytes_of({c.batch, c.heads, c.keys, c.value_size}, c.call.dtype));
  return {key, value};
}

void flash_backward(const FusedCall& c, const StridedTensor& grad_out, AttentionStep& step) {
  step.op = Operator::_scaled_dot_product_flash_attention_backward;
  ProgramWriter program(step);
  const std::int64_t grad_copy = contiguous_copy(grad_out, c.call.dtype, program);
  const std::int64_t out_copy = contiguous_copy(c.out, c.call.dtype, program);
  results(c, {empty_like(c.query), empty_like(c.key), empty_like(c.value)}, program);
  const Shape rows = c.rows(round_up(c.queries, 128));
  const std::int64_t softmax_d = program.scratch(bytes_of(rows, DType::fp32));
  const std::int64_t query_accumulator =
      program.scratch(checked_mul(bytes_of(rows, DType::fp32), flash_rounded_head_size(c.head_size, c.pytorch)));
  const auto [key, value] = ungrouped_gradients(c, program);
  for (const std::int64_t number : {value, key, query_accumulator, softmax_d, out_copy, grad_copy}) {
    program.free(number);
  }
}

/// (grad_out * out).sum(-1) in fp32, as [batch, heads, queries].
std::int64_t delta(const FusedCall& c, bool in_kernel, ProgramWriter& program) {
  const std::int64_t bytes = bytes_of(c.rows(c.queries), DType::fp32);
  if (in_kernel) return program.scratch(bytes);
  const std::int64_t product_bytes = bytes_of(c.out.shape, DType::fp32);
  const bool converts = c.call.dtype != DType::fp32;
  const std::int64_t grad_out = converts ? program.scratch(product_bytes) : ProgramWriter::kNothing;
  const std::int64_t out = converts ? program.scratch(product_bytes) : ProgramWriter::kNothing;
  const std::int64_t product = program.scratch(product_bytes);
  std::int64_t sum = program.scratch(bytes);
  if (c.queries != 1 && c.heads != 1) {  // else the transposed sum is contiguous
    const std::int64_t transposed = program.scratch(bytes);
    program.free(std::exchange(sum, transposed));
  }
  for (const std::int64_t number : {product, out, grad_out}) program.free(number);
  return sum;
}

/// The gradient of the mask as the kernel sees it: rows padded to a multiple of 16.
AttentionOutput scores_gradient(const FusedCall& c) {
  const Shape shape{c.batch, c.heads, c.queries, c.keys};
  Shape stored = shape;
  stored.set(3, round_up(c.keys, 16));
  StridedTensor tensor = dense_tensor(stored);
  tensor.shape = shape;
  return {grad_scores, tensor, c.call.dtype, bytes_of(stored, c.call.dtype)};
}

void efficient_backward(const FusedCall& c, const StridedTensor& grad_out, AttentionStep& step) {
  step.op = Operator::_scaled_dot_product_efficient_attention_backward;
  ProgramWriter program(step);
  const std::int64_t grad_copy = contiguous_copy(grad_out, c.call.dtype, program);
  const auto dense = [](const StridedTensor& t) { return dense_tensor(t.shape, kBatchLengthHeads); };
  results(c, {dense(c.query), dense(c.key), dense(c.value)}, program);
  const auto [key, value] = ungrouped_gradients(c, program);
  if (c.call.mask && c.call.mask->requires_grad) program.result(scores_gradient(c));
  const EfficientKernel kernel =
      efficient_backward_kernel(c.call.dtype, c.head_size, c.value_size, c.call.dropout > 0, c.gpu);
  const std::int64_t row_products = delta(c, kernel.computes_delta, program);
  const std::int64_t workspace = program.scratch(efficient_workspace_bytes(
      kernel, c.batch_heads(), c.queries, c.keys, c.head_size, c.value_size, c.call.dtype, c.gpu));
  for (const std::int64_t number : {row_products, workspace, value, key, grad_copy}) program.free(number);
}

void cudnn_backward(const FusedCall& c, const StridedTensor& grad_out, bool engine_workspace, AttentionStep& step) {
  step.op = Operator::_scaled_dot_product_cudnn_attention_backward;
  ProgramWriter program(step);
  const bool copies = grad_out.shape[3] != 1 && grad_out.strides[3] != 1;
  const std::int64_t grad_copy =
      copies ? program.scratch(bytes_of(grad_out.shape, c.call.dtype)) : ProgramWriter::kNothing;
  results(c, {empty_like(c.query), empty_like(c.key), empty_like(c.value)}, program);
  // cudnn_frontend: the query's gradient and a sum a row in fp32; keys' and values' of every head are the engine's.
  std::int64_t bytes = checked_add(bytes_of(c.query.shape, DType::fp32), bytes_of(c.rows(c.queries), DType::fp32));
  if (engine_workspace) {
    bytes = checked_add(bytes, kCudnnEngineBytes);
    if (c.grouped()) {
      bytes = checked_add(bytes, bytes_of({c.batch, c.heads, c.keys, c.head_size + c.value_size}, c.call.dtype));
    }
  }
  program.free(program.scratch(bytes));
  program.free(grad_copy);
}

/// Expanded, sliced, padded: the mask's way back to its own shape.
void mask_gradient_steps(const FusedCall& c, std::vector<AttentionStep>& steps) {
  AttentionValue gradient = grad_scores;
  const Shape& shape = c.additive_mask.shape;
  const Shape scores{c.batch, c.heads, c.queries, c.keys};
  unsigned reduced = 0;
  for (int i = 0; i < 4; ++i) {
    if (shape[i] != scores[i]) reduced |= 1u << i;
  }
  if (reduced != 0) {
    AttentionStep step{Operator::sum, {gradient}, {}, {}, {}};
    gradient = c.pads_mask ? grad_broadcast_mask : grad_mask;
    step.outputs = {attention_output(gradient, dense_tensor(shape), c.call.dtype)};
    step.program = {kResultAllocation};
    const ScratchProgram sum = reduction_program(scores, reduced, c.call.dtype, c.call.dtype, c.gpu);
    step.program.insert(step.program.end(), sum.begin(), sum.end());
    steps.push_back(std::move(step));
  }
  if (!c.pads_mask) return;
  AttentionStep slice{Operator::slice_backward, {gradient}, {}, {}, {}};
  ProgramWriter(slice).result(attention_output(grad_aligned_mask, c.kernel_mask, c.call.dtype));
  steps.push_back(std::move(slice));
  AttentionStep pad{Operator::constant_pad_nd, {grad_aligned_mask}, {}, {}, {}};
  ProgramWriter(pad).result(attention_output(grad_mask, dense_tensor(shape), c.call.dtype));
  steps.push_back(std::move(pad));
}

AttentionStep unpad_step(AttentionValue from, AttentionValue to, const Shape& shape, DType dtype) {
  AttentionStep step{Operator::constant_pad_nd, {from}, {}, {}, {}};
  ProgramWriter(step).result(attention_output(to, dense_tensor(shape), dtype));
  return step;
}

}  // namespace

std::vector<AttentionStep> attention_backward(const AttentionCall& call, AttentionBackend backend,
                                              const StridedTensor& grad_out, const Gpu& gpu, PyTorchVersion pytorch,
                                              bool engine_workspace) {
  if (backend == AttentionBackend::math) return {};
  const FusedCall c(call, backend, gpu, pytorch);
  std::vector<AttentionStep> steps;
  StridedTensor gradient = grad_out;
  if (c.pads_heads) {
    gradient = dense_tensor(c.out.shape);
    AttentionStep slice{Operator::slice_backward, {AttentionValue::grad_out}, {}, {}, {}};
    ProgramWriter(slice).result(attention_output(padded_grad_out, gradient, call.dtype));
    steps.push_back(std::move(slice));
  }
  AttentionStep kernel{{}, {c.pads_heads ? padded_grad_out : AttentionValue::grad_out}, {}, {}, {}};
  if (backend == AttentionBackend::flash) flash_backward(c, gradient, kernel);
  if (backend == AttentionBackend::efficient) efficient_backward(c, gradient, kernel);
  if (backend == AttentionBackend::cudnn) cudnn_backward(c, gradient, engine_workspace, kernel);
  steps.push_back(std::move(kernel));
  if (call.mask && call.mask->requires_grad) mask_gradient_steps(c, steps);
  if (c.pads_heads) {
    steps.push_back(unpad_step(padded_grad_value, grad_value, call.value.shape, call.dtype));
    steps.push_back(unpad_step(padded_grad_key, grad_key, call.key.shape, call.dtype));
    steps.push_back(unpad_step(padded_grad_query, grad_query, call.query.shape, call.dtype));
  }
  return steps;
}

}  // namespace gpuplan
