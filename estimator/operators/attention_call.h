// What the forward and the backward steps of a fused attention call are built with; used by attention_forward.cpp and
// attention_backward.cpp only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "estimator/base/dtype.h"
#include "estimator/base/integers.h"
#include "estimator/operators/attention.h"
#include "estimator/operators/scratch_program.h"

namespace gpuplan {

constexpr std::array<int, 4> kBatchLengthHeads = {0, 2, 1, 3};  // [B, H, L, D] in memory as [B, L, H, D]

/// cuDNN's engines on Hopper ask for 256 bytes.
constexpr std::int64_t kCudnnEngineBytes = 256;

inline std::int64_t bytes_of(const Shape& shape, DType dtype) { return checked_mul(shape.elements(), size_of(dtype)); }

/// torch.empty_like.
StridedTensor empty_like(const StridedTensor& tensor);
/// Whether its elements are in this order of dimensions without gaps.
bool is_contiguous(const StridedTensor& tensor, std::array<int, 4> order);

inline AttentionOutput attention_output(AttentionValue value, const StridedTensor& tensor, DType dtype) {
  return {value, tensor, dtype, bytes_of(tensor.shape, dtype)};
}

/// What an operator allocates and frees, written in the order in which it happens.
class ProgramWriter {
 public:
  explicit ProgramWriter(AttentionStep& step) : step_(step), writer_(step.program) {}

  void result(const AttentionOutput& value) {
    writer_.result();
    step_.outputs.push_back(value);
  }
  /// Allocates bytes (0: nothing, as PyTorch) and returns what free() takes.
  std::int64_t scratch(std::int64_t bytes) { return writer_.allocate(bytes); }
  void free(std::int64_t number) { writer_.release(number); }
  static constexpr std::int64_t kNothing = ScratchWriter::kNothing;

 private:
  AttentionStep& step_;
  ScratchWriter writer_;
};

/// A call as its kernel sees it: flash takes head sizes padded to a multiple of 8, efficient masks with aligned rows.
struct FusedCall {
  FusedCall(const AttentionCall& call, AttentionBackend backend, const Gpu& gpu, PyTorchVersion pytorch);

  const AttentionCall& call;
  const Gpu& gpu;
  PyTorchVersion pytorch;
  std::int64_t batch, heads, kv_heads, queries, keys, head_size, value_size;
  bool pads_heads = false;
  StridedTensor query, key, value, out;
  AttentionValue query_id = AttentionValue::query, key_id = AttentionValue::key, value_id = AttentionValue::value;
  bool pads_mask = false;
  StridedTensor additive_mask;  // before it is padded
  StridedTensor kernel_mask;    // of the padded tensor when it is
  AttentionValue mask_id = AttentionValue::mask;

  std::int64_t batch_heads() const { return checked_mul(batch, heads); }
  bool grouped() const { return heads != kv_heads; }
  /// One value per query and head.
  Shape rows(std::int64_t length) const { return {batch, heads, length, 1}; }
};

}  // namespace gpuplan
