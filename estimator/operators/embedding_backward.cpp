// The gradient of an embedding table on CUDA (aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu):
// sort the indices, find where each row's run begins, sum runs in parts of ten rows, add the parts up. The tile sizes
// of cub's unique are read off recordings of PyTorch 2.8 and 2.15, see tests/recorders/embedding_backward.py.
#include <algorithm>

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
  ScratchProgram program;
  ScratchWriter w(program);
  if (indices <= kUnsortedIndices && !bag) {
    w.result();
    return program;
  }
  const std::int64_t index_bytes = checked_mul(indices, kIndexBytes);
  const std::int64_t segments = std::min(indices, vocabulary);  // runs of equal indices, at most
  const std::int64_t parts = indices / kRowsPerPart + segments;
  const std::int64_t accumulator_bytes = size_of(accumulate_type(dtype));

  w.allocate(index_bytes);
  w.allocate(index_bytes);
  const std::int64_t range = w.allocate(index_bytes);
  w.use(cub_sort_bytes(indices, vocabulary, gpu, pytorch));
  w.release(range);
  w.result();

  w.allocate(index_bytes);
  w.allocate(kIndexBytes);
  const std::int64_t unique_keys = w.allocate(index_bytes);
  w.use(cub_scan_bytes(indices, unique_tile(gpu, pytorch), pytorch));
  w.release(unique_keys);

  w.allocate(segments * kIndexBytes);
  w.allocate(segments * kIndexBytes);
  w.use(cub_scan_bytes(segments, kCubScanTile, pytorch));
  w.allocate(kIndexBytes);
  w.allocate(parts * kIndexBytes);

  if (adds_in_place(segments, parts, features, gpu, pytorch)) {
    const std::int64_t part_to_segment = w.allocate(parts * kIndexBytes);
    if (size_of(dtype) < accumulator_bytes) w.use(checked_mul(checked_mul(vocabulary, features), accumulator_bytes));
    w.release(part_to_segment);
  } else {
    w.use(checked_mul(checked_mul(parts, features), accumulator_bytes));
  }
  w.release_all();
  return program;
}

}  // namespace gpuplan
