// Attention: one pair of kernels for all of PyTorch's backends.
#include "validate/cuda/kernels/attention.h"

#include <array>

#include "validate/cuda/check.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

AttentionArguments arguments_of(const Kernel& k) {
  AttentionArguments a;
  a.scale = k.number(Attribute::scale, 1);
  a.causal = k.number(Attribute::is_causal) != 0;
  a.dropout = k.number(Attribute::dropout_p);
  a.seed = k.seed;
  return a;
}

// The n-th result that is no seed: seeds are integers, before or after the others.
KernelTensor floating(std::span<const KernelTensor> writes, std::size_t n) {
  for (const KernelTensor& t : writes)
    if (is_floating(t.dtype) && n-- == 0) return t;
  return {};
}

AttentionTensors forward_tensors(const Kernel& k) {
  AttentionTensors t;
  t.query = k.reads[0];
  t.key = k.reads[1];
  t.value = k.reads[2];
  t.mask = optional(k.reads, 3);
  t.out = floating(k.writes, 0);
  t.logsumexp = floating(k.writes, 1);
  return t;
}

void run_attention(const Machine& m, const Kernel& k) { attention(m.launch, forward_tensors(k), arguments_of(k)); }

constexpr std::size_t kSaved = 6;  // query, key, value, [mask], result, log-sum-exp

AttentionTensors backward_tensors(const Kernel& k) {
  AttentionTensors t;
  t.grad = k.reads[0];
  t.query = k.extra[0];
  t.key = k.extra[1];
  t.value = k.extra[2];
  t.mask = k.extra[3];
  t.out = k.extra[4];
  t.logsumexp = k.extra[5];
  t.grad_query = k.writes[0];
  t.grad_key = k.writes[1];
  t.grad_value = k.writes[2];
  t.grad_mask = optional(k.writes, 3);
  return t;
}

std::int64_t row_bytes(const AttentionTensors& t) {
  return t.query.sizes[0] * t.query.sizes[1] * t.query.sizes[2] * size_of(accumulate_type(t.query.dtype));
}

void run_attention_backward(const Machine& m, const Kernel& k) {
  const AttentionTensors t = backward_tensors(k);
  const std::int64_t bytes = row_bytes(t);
  void* row_sums = scratch_of(k, bytes);
  if (row_sums == nullptr && bytes <= m.launch.partial_bytes) row_sums = m.launch.partials;
  if (row_sums == nullptr) fail("the plan has no room for a sum of each row");
  attention_backward(m.launch, t, arguments_of(k), row_sums);
}

// reads query, key, value, result, log-sum-exp, grad. Its plan has no room for sums beside the kernels' own.
AttentionTensors fused_backward_tensors(const Kernel& k) {
  AttentionTensors t;
  t.query = k.reads[0];
  t.key = k.reads[1];
  t.value = k.reads[2];
  t.out = k.reads[3];
  t.logsumexp = k.reads[4];
  t.grad = k.reads[5];
  t.grad_query = k.writes[0];
  t.grad_key = k.writes[1];
  t.grad_value = k.writes[2];
  return t;
}

void run_fused_backward(const Machine& m, const Kernel& k) {
  const AttentionTensors t = fused_backward_tensors(k);
  if (row_bytes(t) > m.launch.partial_bytes) fail("the plan has no room for the sums of that many rows");
  attention_backward(m.launch, t, arguments_of(k), m.launch.partials);
}

std::string refuse_fused_backward(const Kernel& k) {
  if (k.reads.size() < 6 || k.writes.size() < 3) return "the plan does not give what attention's forward saved";
  if (!k.has(Attribute::is_causal)) return "the plan does not say whether it is causal";
  return attention_refusal(fused_backward_tensors(k));
}

std::string refuse_attention(const Kernel& k) {
  if (k.reads.size() < 3 || k.writes.empty()) return "attention without query, key and value";
  return attention_refusal(forward_tensors(k));
}

std::string refuse_attention_backward(const Kernel& k) {
  if (k.reads.empty() || k.extra.size() < kSaved) return "the plan does not give what attention's forward saved";
  if (k.writes.size() < 3) return "gradients of less than query, key and value";
  return attention_refusal(backward_tensors(k));
}

constexpr std::array kOperations{
    Operation{Operator::fused_attention, run_attention, refuse_attention},
    Operation{Operator::fused_attention_backward, run_fused_backward, refuse_fused_backward},
    Operation{Operator::_scaled_dot_product_flash_attention, run_attention, refuse_attention},
    Operation{Operator::_scaled_dot_product_efficient_attention, run_attention, refuse_attention},
    Operation{Operator::_scaled_dot_product_cudnn_attention, run_attention, refuse_attention},
    Operation{Operator::_scaled_dot_product_flash_attention_backward, run_attention_backward,
              refuse_attention_backward},
    Operation{Operator::_scaled_dot_product_efficient_attention_backward, run_attention_backward,
              refuse_attention_backward},
    Operation{Operator::_scaled_dot_product_cudnn_attention_backward, run_attention_backward,
              refuse_attention_backward}};
static_assert(is_whole_family(kOperations, OperatorFamily::attention));

}  // namespace

std::span<const Operation> attention_operations() { return kOperations; }

}  // namespace gpuplan::cuda
