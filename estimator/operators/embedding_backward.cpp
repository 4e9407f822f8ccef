// The gradient of an embedding table on CUDA (aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu):
// sort the indices, find where each row's run begins, sum runs in parts of ten rows, add the parts up. The tile sizes
// of cub's unique are read off recordings of PyTorch 2.8 and 2.15, see tests/recorders/embedding_backward.py.
#include <algorithm>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/operators/cub.h"
#include "estimator/operators/reduction.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kUnsortedIndices = 3072;  // up to here one kernel without a sort
constexpr std::int64_t kRowsPerPart = 10;        // NROWS_PER_THREAD
constexpr std::int64_t kEmbeddingThreads = 1024;
constexpr std::int64_t kWarpSize = 32;
constexpr std::int64_t kIndexBytes = 8;
/// Collects actions and numbers the allocations.
class WorkspaceWriter {
 public:
  std::int64_t allocate(std::int64_t bytes) {
    program_.push_back(bytes);
    return allocations_++;
  }
  void release(std::int64_t allocation) { program_.push_back(-allocation - 1); }
  void use(std::int64_t bytes) { release(allocate(bytes)); }
  void mark_result() { program_.push_back(kResultAllocation); }
  ScratchProgram take() { return std::move(program_); }

 private:
  ScratchProgram program_;
  std::int64_t allocations_ = 0;
};

/// DeviceSelect::UniqueByKey of int64 keys and values.
std::int64_t unique_tile(const Gpu& gpu, PyTorchVersion pytorch) {
  if (gpu.capability_major >= 9) return is_recent_cub(pytorch) ? 4928 : 4480;
  if (gpu.capability_major == 8 && gpu.capability_minor == 0) return is_recent_cub(pytorch) ? 1344 : 1792;
  return 320;
}

/// Few long runs: blocks add parts straight into the result, so no sum per part is kept. Not in 2.8. The condition is
/// read off recordings: the blocks of the last kernel stay below four per SM, and the parts exceed four per block.
bool adds_in_place(std::int64_t segments, std::int64_t parts, std::int64_t features, const Gpu& gpu,
                   PyTorchVersion pytorch) {
  if (!is_recent_cub(pytorch)) return false;
  const std::int64_t threads = round_up(features, kWarpSize);
  const std::int64_t blocks = ceil_div(checked_mul(segments, threads), std::min(threads, kEmbeddingThreads));
  return blocks < 4 * gpu.sm_count && parts > 4 * blocks;
}

}  // namespace

ScratchProgram embedding_backward_program(std::int64_t indices, std::int64_t vocabulary, std::int64_t features,
                                          DType dtype, const Gpu& gpu, PyTorchVersion pytorch, bool bag) {
  WorkspaceWriter w;
  if (indices <= kUnsortedIndices && !bag) {
    w.mark_result();
    return w.take();
  }
  const std::int64_t index_bytes = checked_mul(indices, kIndexBytes);
  const std::int64_t segments = std::min(indices, vocabulary);  // runs of equal indices, at most
  const std::int64_t parts = indices / kRowsPerPart + segments;
  const std::int64_t accumulator_bytes = size_of(accumulate_type(dtype));

  const std::int64_t sorted = w.allocate(index_bytes);
  const std::int64_t original = w.allocate(index_bytes);
  const std::int64_t range = w.allocate(index_bytes);
  w.use(cub_sort_bytes(indices, vocabulary, gpu, pytorch));
  w.release(range);
  w.mark_result();

  const std::int64_t segment_offsets = w.allocate(index_bytes);
  const std::int64_t segment_count = w.allocate(kIndexBytes);
  const std::int64_t unique_keys = w.allocate(index_bytes);
  w.use(cub_scan_bytes(indices, unique_tile(gpu, pytorch), pytorch));
  w.release(unique_keys);

  const std::int64_t segment_parts = w.allocate(segments * kIndexBytes);
  const std::int64_t segment_parts_offset = w.allocate(segments * kIndexBytes);
  w.use(cub_scan_bytes(segments, kCubScanTile, pytorch));
  const std::int64_t part_count = w.allocate(kIndexBytes);
  const std::int64_t part_offsets = w.allocate(parts * kIndexBytes);

  if (adds_in_place(segments, parts, features, gpu, pytorch)) {
    const std::int64_t part_to_segment = w.allocate(parts * kIndexBytes);
    if (size_of(dtype) < accumulator_bytes) w.use(checked_mul(checked_mul(vocabulary, features), accumulator_bytes));
    w.release(part_to_segment);
  } else {
    w.use(checked_mul(checked_mul(parts, features), accumulator_bytes));
  }
  for (const std::int64_t a : {part_offsets, part_count, segment_parts_offset, segment_parts, segment_count,
                               segment_offsets, original, sorted}) {
    w.release(a);
  }
  return w.take();
}

ScratchProgram embedding_backward_scratch(std::int64_t indices, std::int64_t vocabulary, std::int64_t features,
                                          DType dtype, const Gpu& gpu, PyTorchVersion pytorch) {
  ScratchProgram program = embedding_backward_program(indices, vocabulary, features, dtype, gpu, pytorch);
  std::erase(program, kResultAllocation);
  return program;
}

}  // namespace gpuplan
