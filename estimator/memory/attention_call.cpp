#include "estimator/memory/attention_call.h"

#include <numeric>

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
  std::stable_sort(order.begin(), order.end() - 1, [&](int a, int b) {
    return like.strides[static_cast<std::size_t>(a)] > like.strides[static_cast<std::size_t>(b)];
  });
  Shape shape = like.shape;
  shape.set(3, value_size);
  return dense_tensor(shape, order);
}

/// aligned_tensor<8>: the kernel reads rows of a mask 8 elements at a time.
bool has_aligned_rows(const StridedTensor& mask) {
  return mask.strides[3] == 1 && std::all_of(mask.strides.begin(), mask.strides.begin() + 3,
                                             [](std::int64_t stride) { return stride % 8 == 0; });
}

}  // namespace

StridedTensor dense_tensor(const Shape& shape, std::array<int, 4> order) {
  StridedTensor tensor{shape, {}, 0};
  std::int64_t stride = 1;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    tensor.strides[static_cast<std::size_t>(*i)] = stride;
    stride = checked_mul(stride, std::max<std::int64_t>(shape[*i], 1));
  }
  return tensor;
}

bool is_contiguous(const StridedTensor& tensor, std::array<int, 4> order) {
  const StridedTensor dense = dense_tensor(tensor.shape, order);
  for (int i = 0; i < 4; ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (tensor.shape[i] != 1 && tensor.strides[d] != dense.strides[d]) return false;
  }
  return true;
}

StridedTensor empty_like(const StridedTensor& tensor) {
  // at::infer_dense_strides: dimensions sorted by stride, a larger dimension outside of one of the same stride;
  // expanded ones (stride 0) stay where they are.
  std::array<int, 4> inner_first = {3, 2, 1, 0};
  const auto is_outside = [&](int a, int b) {  // 1: a belongs outside of b, -1: inside, 0: unknown
    const std::int64_t sa = tensor.strides[static_cast<std::size_t>(a)];
    const std::int64_t sb = tensor.strides[static_cast<std::size_t>(b)];
    if (sa == 0 || sb == 0) return 0;
    if (sa != sb) return sa < sb ? -1 : 1;
    return tensor.shape[a] > tensor.shape[b] ? 1 : 0;
  };
  for (std::size_t i = 1; i < 4; ++i) {
    std::size_t inner = i;
    for (std::size_t outer = i; outer-- > 0;) {
      const int comparison = is_outside(inner_first[outer], inner_first[inner]);
      if (comparison > 0) std::swap(inner_first[outer], inner_first[inner]), inner = outer;
      if (comparison < 0) break;
    }
  }
  return dense_tensor(tensor.shape, {inner_first[3], inner_first[2], inner_first[1], inner_first[0]});
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
  if (backend == AttentionBackend::efficient && !has_aligned_rows(additive_mask)) {
    pads_mask = true;
    mask_id = AttentionValue::aligned_mask;
    // pad_bias: strides can be odd where the rows are not, and then 8 more are added.
    kernel_mask = with_last_dimension(additive_mask.shape, additive_mask.shape[3] / 8 * 8 + 8);
  }
}

}  // namespace gpuplan
