// The gradient of an embedding table on CUDA (aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu):
// sort the indices, find where each row's run begins, sum runs in parts of ten rows, add the parts up. The temporaries
// of cub's sort, unique and scan follow from their tile sizes (cub/device/dispatch/), which are tuned per compute
// capability; the tile sizes here are read off recordings of PyTorch 2.8 and 2.15, see
// tests/recorders/embedding_backward.py.
#include <algorithm>
#include <bit>
#include <utility>

#include "estimator/integers.h"
#include "estimator/memory/reduction.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kUnsortedIndices = 3072;  // up to here one kernel without a sort
constexpr std::int64_t kRowsPerPart = 10;        // NROWS_PER_THREAD
constexpr std::int64_t kBlockThreads = 1024;
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kIndexBytes = 8;
constexpr std::int64_t kCubAlign = 256;  // of every part of a temporary; the whole asks for 255 more to align itself
constexpr std::int64_t kTileStateBytes = 16;
constexpr std::int64_t kTileStatePadding = 32;
constexpr std::int64_t kScanTile = 896;

/// PyTorch 2.15's rules were recorded, 2.8's too; what changed in between is assumed to have come with 2.9.
bool is_recent(PyTorchVersion pytorch) { return pytorch >= 209; }

/// Collects actions and numbers the allocations.
class ProgramWriter {
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

std::int64_t cub_temporary(std::int64_t parts_bytes) { return parts_bytes + kCubAlign - 1; }

/// DeviceRadixSort::SortPairs of int64 keys and values, onesweep: 256 bins of 8 B a pass, a look-back of 256 counters
/// of 4 B a tile, second buffers of keys and values where one pass is not enough, and counters.
std::int64_t sort_temporary(std::int64_t n, std::int64_t vocabulary, const Gpu& gpu, PyTorchVersion pytorch) {
  const std::int64_t tile = gpu.capability_major >= 9 ? 4608 : gpu.capability_major == 8 ? 3840 : 2816;
  // The key bits that can be set; 2.8 sorts all 64.
  const std::int64_t bits =
      is_recent(pytorch) ? static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(vocabulary))) : 64;
  const std::int64_t passes = ceil_div(bits, 8);
  const std::int64_t second_buffers = passes > 1 ? 2 * round_up(checked_mul(n, kIndexBytes), kCubAlign) : 0;
  return cub_temporary(passes * 256 * 8 + ceil_div(n, tile) * 256 * 4 + second_buffers +
                       round_up(passes * 4, kCubAlign));
}

/// Tile states of a decoupled look-back scan. Recent cub aligns them as a temporary within the temporary.
std::int64_t scan_temporary(std::int64_t n, std::int64_t tile, PyTorchVersion pytorch) {
  const std::int64_t states = round_up((ceil_div(n, tile) + kTileStatePadding) * kTileStateBytes, kCubAlign);
  return cub_temporary(is_recent(pytorch) ? states + kCubAlign : states);
}

/// DeviceSelect::UniqueByKey of int64 keys and values.
std::int64_t unique_tile(const Gpu& gpu, PyTorchVersion pytorch) {
  if (gpu.capability_major >= 9) return is_recent(pytorch) ? 4928 : 4480;
  if (gpu.capability_major == 8 && gpu.capability_minor == 0) return is_recent(pytorch) ? 1344 : 1792;
  return 320;
}

/// Few long runs: blocks add parts straight into the result, so no sum per part is kept. Not in 2.8. The condition is
/// read off recordings: the blocks of the last kernel stay below four per SM, and the parts exceed four per block.
bool adds_in_place(std::int64_t segments, std::int64_t parts, std::int64_t features, const Gpu& gpu,
                   PyTorchVersion pytorch) {
  if (!is_recent(pytorch)) return false;
  const std::int64_t threads = round_up(features, kWarp);
  const std::int64_t blocks = ceil_div(checked_mul(segments, threads), std::min(threads, kBlockThreads));
  return blocks < 4 * gpu.sm_count && parts > 4 * blocks;
}

}  // namespace

ScratchProgram embedding_backward_program(std::int64_t indices, std::int64_t vocabulary, std::int64_t features,
                                          DType dtype, const Gpu& gpu, PyTorchVersion pytorch) {
  ProgramWriter w;
  if (indices <= kUnsortedIndices) {
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
  w.use(sort_temporary(indices, vocabulary, gpu, pytorch));
  w.release(range);
  w.mark_result();

  const std::int64_t segment_offsets = w.allocate(index_bytes);
  const std::int64_t segment_count = w.allocate(kIndexBytes);
  const std::int64_t unique_keys = w.allocate(index_bytes);
  w.use(scan_temporary(indices, unique_tile(gpu, pytorch), pytorch));
  w.release(unique_keys);

  const std::int64_t segment_parts = w.allocate(segments * kIndexBytes);
  const std::int64_t segment_parts_offset = w.allocate(segments * kIndexBytes);
  w.use(scan_temporary(segments, kScanTile, pytorch));
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
