#include "estimator/operators/attention_call.h"

namespace gpuplan {
namespace {

StridedTensor with_last_dimension(const Shape& shape, std::int64_t size) {
  Shape wide = shape;
  wide.set(3, size);
  return dense_tensor(wide);
}

/// A tensor of `like`'s order of dimensions and v's head size: what the kernels make their output.
StridedTensor output_like(const StridedTensor& like, std::int64_t value_size) {
  if (like.shape[3] == value_size) return empty_like(like);
  std::array<int, 4> order = {0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end() - 1, [&](int a, int b) { return like.strides[a] > like.strides[b]; });
  Shape shape = like.shape;
  shape.set(3, value_size);
  return dense_tensor(shape, order);
}

}  // namespace

std::int64_t padded_mask_columns(const StridedTensor& mask) {
  const Strides& strides = mask.strides;
  const bool aligned = strides[3] == 1 && strides[2] % 8 == 0 && strides[1] % 8 == 0 && strides[0] % 8 == 0;
  // pad_bias: strides can be odd where the rows are not, and then 8 more are added.
  return aligned ? mask.shape[3] : mask.shape[3] / 8 * 8 + 8;
}

StridedTensor dense_tensor(const Shape& shape, std::array<int, 4> order) {
  StridedTensor tensor{shape, {}, 0};
  std::int64_t stride = 1;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    tensor.strides.set(*i, stride);
    stride = checked_mul(stride, std::max<std::int64_t>(shape[*i], 1));
  }
  return tensor;
}

StridedTensor empty_like(const StridedTensor& tensor) {
  return {tensor.shape, strides_like(tensor.shape, tensor.strides), 0};
}

bool is_contiguous(const StridedTensor& tensor, std::array<int, 4> order) {
  Shape shape;
  Strides strides;
  for (const int dimension : order) {
    strides.set(shape.rank(), tensor.strides[dimension]);
    shape.push_back(tensor.shape[dimension]);
  }
  return is_contiguous(shape, strides);
}

FusedCall::FusedCall(const AttentionCall& attention, AttentionBackend backend, const Gpu& device,
                     PyTorchVersion release)
    : call(attention),
      gpu(device),
      pytorch(release),
      batch(call.query.shape[0]),
      heads(call.query.shape[1]),
      kv_heads(call.key.shape[1]),
      queries(call.query.shape[2]),
      keys(call.key.shape[2]),
      head_size(call.query.shape[3]),
      value_size(call.value.shape[3]),
      query(call.query),
      key(call.key),
      value(call.value) {
  if (backend == AttentionBackend::flash && head_size % 8 != 0) {
    pads_heads = true;
    head_size = value_size = round_up(head_size, 8);
    for (StridedTensor* t : {&query, &key, &value}) *t = with_last_dimension(t->shape, head_size);
    query_id = AttentionValue::padded_query;
    key_id = AttentionValue::padded_key;
    value_id = AttentionValue::padded_value;
  }
  out = backend == AttentionBackend::efficient ? dense_tensor({batch, heads, queries, value_size}, kBatchLengthHeads)
                                               : output_like(query, value_size);
  if (!call.mask) return;
  const AttentionMask& given = *call.mask;
  if (given.boolean) mask_id = AttentionValue::additive_mask;
  additive_mask = kernel_mask = given.boolean ? dense_tensor(given.tensor.shape) : given.tensor;
  if (backend != AttentionBackend::efficient) return;
  if (const std::int64_t columns = padded_mask_columns(additive_mask); columns != additive_mask.shape[3]) {
    pads_mask = true;
    mask_id = AttentionValue::aligned_mask;
    kernel_mask = with_last_dimension(additive_mask.shape, columns);
  }
}

}  // namespace gpuplan
