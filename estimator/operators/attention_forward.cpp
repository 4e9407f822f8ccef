#include <utility>

#include "estimator/operators/attention_call.h"
#include "estimator/operators/attention_kernels.h"

namespace gpuplan {
namespace {

using enum AttentionValue;
constexpr std::int64_t kLong = size_of(DType::int64);

/// Random seeds and offsets are 64-bit integers.
AttentionOutput integers(AttentionValue value, std::int64_t count) {
  return attention_output(value, dense_tensor({1, 1, 1, count}), DType::int64);
}

/// convert_boolean_attn_mask: where(mask, 0, -inf), of the mask's own shape, in the query's dtype.
AttentionStep boolean_mask_step(const FusedCall& c) {
  AttentionStep step{Operator::where, {mask}, {}, {}, {}};
  ProgramWriter program(step);
  const std::int64_t zero = program.scratch(size_of(c.call.dtype));
  const std::int64_t infinity = program.scratch(size_of(c.call.dtype));
  program.result(attention_output(additive_mask, c.additive_mask, c.call.dtype));
  program.free(zero);
  program.free(infinity);
  return step;
}

AttentionStep pad_step(AttentionValue from, AttentionValue to, const StridedTensor& result, DType dtype) {
  AttentionStep step{Operator::constant_pad_nd, {from}, {}, {}, {}};
  ProgramWriter(step).result(attention_output(to, result, dtype));
  return step;
}

void flash_forward(const FusedCall& c, AttentionStep& step) {
  step.op = Operator::_scaled_dot_product_flash_attention;
  ProgramWriter program(step);
  program.result(attention_output(out, c.out, c.call.dtype));
  std::vector<std::int64_t> dropped;  // without a gradient only the output is returned
  const auto result = [&](const AttentionOutput& value) {
    if (c.call.requires_grad) {
      program.result(value);
    } else {
      dropped.push_back(program.scratch(value.bytes));
    }
  };
  result(attention_output(logsumexp, dense_tensor(c.rows(c.queries)), DType::fp32));
  const bool drops = c.call.dropout > 0;
  std::int64_t split_logsumexp = ProgramWriter::kNothing, split_out = ProgramWriter::kNothing;
  if (!drops) {
    // A single query of grouped heads is run as one query for each head of its group.
    const bool swapped = c.queries == 1 && c.grouped();
    const std::int64_t splits =
        flash_key_splits(swapped ? checked_mul(c.batch, c.kv_heads) : c.batch_heads(),
                         swapped ? c.heads / c.kv_heads : c.queries, c.keys, c.head_size, c.gpu);
    if (splits > 1) {
      const std::int64_t rows = checked_mul(splits, bytes_of(c.rows(c.queries), DType::fp32));
      split_logsumexp = program.scratch(rows);
      split_out = program.scratch(checked_mul(rows, flash_rounded_head_size(c.head_size, c.pytorch)));
    }
  }
  std::int64_t first_state = ProgramWriter::kNothing;  // dropout allocates rng_state again
  if (drops) {
    first_state = program.scratch(2 * kLong);
  } else {
    result(integers(rng_state, 2));
  }
  result(integers(unused, 1));
  if (drops) result(integers(rng_state, 2));
  for (const std::int64_t number : {first_state, split_logsumexp, split_out}) program.free(number);
  for (const std::int64_t number : dropped) program.free(number);
  step.saved = {c.query_id, c.key_id, c.value_id, out, logsumexp, rng_state, unused};
}

void efficient_forward(const FusedCall& c, AttentionStep& step) {
  step.op = Operator::_scaled_dot_product_efficient_attention;
  ProgramWriter program(step);
  // On the device only without dropout, and only in newer releases; else on the host.
  const bool device_seed = c.pytorch >= 215 && c.call.dropout == 0;
  std::int64_t seed_number = ProgramWriter::kNothing, offset_number = ProgramWriter::kNothing;
  if (device_seed && c.call.requires_grad) {
    program.result(integers(seed, 1));
    program.result(integers(offset, 1));
  } else if (device_seed) {
    seed_number = program.scratch(kLong);
    offset_number = program.scratch(kLong);
  }
  program.result(attention_output(out, c.out, c.call.dtype));
  if (c.call.requires_grad) {
    // kAlignLSE: backward reads whole blocks of 32.
    program.result(attention_output(logsumexp, dense_tensor(c.rows(round_up(c.queries, 32))), DType::fp32));
  }
  if (is_half(c.call.dtype) && std::max(c.head_size, c.value_size) > 128) {
    program.free(program.scratch(bytes_of(c.out.shape, DType::fp32)));  // the output's accumulator
  }
  program.free(seed_number);
  program.free(offset_number);
  step.saved = {c.query_id, c.key_id, c.value_id, out, logsumexp};
  if (device_seed) step.saved.insert(step.saved.end(), {seed, offset});
}

void cudnn_forward(const FusedCall& c, bool engine_workspace, AttentionStep& step) {
  step.op = Operator::_scaled_dot_product_cudnn_attention;
  ProgramWriter program(step);
  std::int64_t seed_number = ProgramWriter::kNothing, offset_number = ProgramWriter::kNothing;
  if (c.call.requires_grad) {
    program.result(integers(seed, 1));
    program.result(integers(offset, 1));
  } else {
    seed_number = program.scratch(kLong);
    offset_number = program.scratch(kLong);
  }
  program.result(attention_output(out, c.out, c.call.dtype));
  if (c.call.requires_grad) {
    program.result(attention_output(logsumexp, dense_tensor(c.rows(c.queries)), DType::fp32));
  }
  if (engine_workspace) program.free(program.scratch(kCudnnEngineBytes));
  program.free(seed_number);
  program.free(offset_number);
  step.saved = {c.query_id, c.key_id, c.value_id, out, logsumexp, seed, offset};
}

}  // namespace

std::vector<AttentionStep> attention_forward(const AttentionCall& call, AttentionBackend backend, const Gpu& gpu,
                                             PyTorchVersion pytorch, bool engine_workspace) {
  if (backend == AttentionBackend::math) return {};
  const FusedCall c(call, backend, gpu, pytorch);
  std::vector<AttentionStep> steps;
  if (call.mask && call.mask->boolean) steps.push_back(boolean_mask_step(c));
  if (c.pads_mask) {
    steps.push_back(pad_step(call.mask->boolean ? additive_mask : mask, aligned_mask, c.kernel_mask, call.dtype));
  }
  if (c.pads_heads) {
    steps.push_back(pad_step(query, padded_query, c.query, call.dtype));
    steps.push_back(pad_step(key, padded_key, c.key, call.dtype));
    steps.push_back(pad_step(value, padded_value, c.value, call.dtype));
  }
  AttentionStep kernel{{}, {c.query_id, c.key_id, c.value_id}, {}, {}, {}};
  if (backend == AttentionBackend::flash) flash_forward(c, kernel);
  if (backend == AttentionBackend::efficient) efficient_forward(c, kernel);
  if (backend == AttentionBackend::cudnn) cudnn_forward(c, engine_workspace, kernel);
  if (call.mask) {
    kernel.reads.push_back(c.mask_id);
    kernel.saved.push_back(c.mask_id);
  }
  if (!call.requires_grad) kernel.saved.clear();
  steps.push_back(std::move(kernel));
  return steps;
}

}  // namespace gpuplan
