// How ATen launches a reduction, in three steps: TensorIterator sorts and merges the dimensions
// (aten/src/ATen/TensorIterator.cpp, reorder_dimensions and coalesce_dimensions), splits what 32-bit offsets
// cannot reach (get_dim_to_split), and setReduceConfig (aten/src/ATen/native/cuda/Reduce.cuh) shapes the grid.
// A reduction whose outputs are too few to fill the GPU is shared by several blocks per output; only those meet
// in global memory: one partial result per block, lane and output, and one semaphore per column of blocks.
#include "estimator/operators/reduction.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <utility>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kReductionThreads = 512;  // mnt_wrapper: all real dtypes
constexpr std::int64_t kMinValuesPerThread = 16;
constexpr std::int64_t kMaxValuesPerThread = 256;
constexpr std::int64_t kSemaphoreBytes = 4;
constexpr std::int64_t kMaxOffset = std::numeric_limits<std::int32_t>::max();

/// One dimension as TensorIterator keeps it. The output's stride is 0 where the dimension is reduced.
struct Dim {
  std::int64_t size = 1;
  std::int64_t in_bytes = 0;
  std::int64_t out_bytes = 0;

  bool reduced() const { return out_bytes == 0; }
};

/// Fastest dimension first, reduced dimensions before the others.
using Dims = std::vector<Dim>;

std::int64_t elements(const Dims& dims) {
  std::int64_t n = 1;
  for (const Dim& d : dims) n *= d.size;
  return n;
}

std::int64_t outputs(const Dims& dims) {
  std::int64_t n = 1;
  for (const Dim& d : dims) n *= d.reduced() ? 1 : d.size;
  return n;
}

/// > 0: a belongs after b; < 0: before; 0: ambiguous. The output is looked at first.
int order(const Dim& a, const Dim& b) {
  if (a.reduced() != b.reduced()) return b.reduced() ? 1 : -1;
  if (!a.reduced()) {
    if (a.out_bytes != b.out_bytes) return a.out_bytes < b.out_bytes ? -1 : 1;
    if (a.size > b.size) return 1;
  }
  if (a.in_bytes != b.in_bytes) return a.in_bytes < b.in_bytes ? -1 : 1;
  return a.size > b.size ? 1 : 0;
}

/// TensorIterator's insertion sort, which starts from the reversed dimensions and tolerates ambiguous pairs.
void sort_dims(Dims& dims) {
  for (std::size_t i = 1; i < dims.size(); ++i) {
    std::size_t moving = i;
    for (std::size_t j = i; j-- > 0;) {
      const int o = order(dims[j], dims[moving]);
      if (o < 0) break;
      if (o == 0) continue;
      std::swap(dims[j], dims[moving]);
      moving = j;
    }
  }
}

/// Merges neighbours that one stride walks through; dimensions of size 1 merge with anything.
Dims coalesce(const Dims& dims) {
  Dims merged;
  for (const Dim& d : dims) {
    if (merged.empty()) {
      merged.push_back(d);
      continue;
    }
    Dim& last = merged.back();
    const bool walks = last.size * last.in_bytes == d.in_bytes && last.size * last.out_bytes == d.out_bytes;
    if (last.size == 1) {
      last = d;
    } else if (d.size == 1 || walks) {
      last.size *= d.size;
    } else {
      merged.push_back(d);
    }
  }
  return merged;
}

Dims dims_of(const Shape& shape, unsigned reduced, DType input, DType output) {
  Dims dims;
  std::int64_t in_stride = size_of(input);
  std::int64_t out_stride = size_of(output);
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const bool is_reduced = ((reduced >> i) & 1u) != 0;
    dims.push_back({shape[i], in_stride, is_reduced ? 0 : out_stride});
    in_stride = checked_mul(in_stride, shape[i]);
    if (!is_reduced) out_stride = checked_mul(out_stride, shape[i]);
  }
  sort_dims(dims);
  return coalesce(dims);
}

bool fits_32_bit_offsets(const Dims& dims) {
  if (elements(dims) > kMaxOffset) return false;
  std::int64_t in_end = 1, out_end = 1;
  for (const Dim& d : dims) {
    in_end += (d.size - 1) * d.in_bytes;
    out_end += (d.size - 1) * d.out_bytes;
  }
  return in_end <= kMaxOffset && out_end <= kMaxOffset;
}

/// The dimension that spans most bytes of either tensor; the slowest of equals.
std::size_t dim_to_split(const Dims& dims) {
  std::size_t widest = 0;
  std::int64_t widest_bytes = -1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const std::int64_t bytes = (dims[i].size - 1) * std::max(dims[i].in_bytes, dims[i].out_bytes);
    if (bytes > widest_bytes) {
      widest_bytes = bytes;
      widest = i;
    }
  }
  return widest;
}

/// Parts that are looked at: a tensor of more than a TiB fits no GPU, and its further parts repeat the first.
constexpr std::size_t kMaxParts = 1024;

/// The parts in the order in which they run, each within reach of 32-bit offsets.
std::vector<Dims> parts_of(const Dims& dims) {
  std::vector<Dims> done, waiting{dims};
  while (!waiting.empty() && done.size() < kMaxParts) {
    if (fits_32_bit_offsets(waiting.back())) {
      done.push_back(std::move(waiting.back()));
      waiting.pop_back();
      continue;
    }
    Dims first = waiting.back();
    const std::size_t i = dim_to_split(first);
    first[i].size /= 2;
    waiting.back()[i].size -= first[i].size;
    waiting.push_back(std::move(first));
  }
  return done;
}

std::int64_t last_pow2(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

/// How many outputs one thread may take at once: 4, 2 or 1, as far as the rows stay aligned.
std::int64_t output_vector(const Dims& dims, std::size_t first_output, std::int64_t input_bytes) {
  std::int64_t vector = 4;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t n = i == first_output ? dims[i].size : dims[i].in_bytes / input_bytes;
    while (n % vector != 0) vector /= 2;
  }
  return vector;
}

/// The threads of one block, and the work of one thread.
struct Block {
  bool reduces_fastest = true;  // x runs along reduced values; otherwise along outputs
  std::int64_t width = 1;
  std::int64_t height = 1;
  std::int64_t vector = 1;  // outputs that one thread takes at once
};

/// x runs along the fastest dimension of the input, y along the other one.
Block block_of(const Dims& dims, DType input, ReductionKind kind) {
  const std::int64_t num_outputs = outputs(dims);
  const std::int64_t inputs_per_output = elements(dims) / num_outputs;
  const auto reduced_dims =
      static_cast<std::size_t>(std::count_if(dims.begin(), dims.end(), [](const Dim& d) { return d.reduced(); }));
  Block block;
  block.reduces_fastest = reduced_dims == dims.size() || dims[0].in_bytes < dims[reduced_dims].in_bytes;

  std::int64_t x = block.reduces_fastest ? inputs_per_output : num_outputs;
  const std::int64_t y = block.reduces_fastest ? num_outputs : inputs_per_output;
  const std::int64_t input_bytes = size_of(input);
  const std::int64_t fastest_bytes =
      dims.empty() ? input_bytes : dims[block.reduces_fastest ? 0 : reduced_dims].in_bytes;
  if (fastest_bytes == input_bytes) {
    if (block.reduces_fastest && x >= 128 && reduced_dims == 1) {
      x /= input_bytes == 2 && kind == ReductionKind::sum ? 8 : 4;
    } else if (!block.reduces_fastest) {
      block.vector = output_vector(dims, reduced_dims, input_bytes);
      x /= block.vector;
    }
  }

  const std::int64_t max_threads = kReductionThreads / block.vector;
  const std::int64_t x_pow2 = std::min(last_pow2(x), max_threads);
  block.height = std::min(std::min(last_pow2(y), max_threads), max_threads / std::min(x_pow2, kWarp));
  block.width = std::min(x_pow2, max_threads / block.height);
  return block;
}

struct GlobalReduce {
  std::int64_t buffer_bytes = 0;  // 0: no block shares its output with another
  std::int64_t semaphore_bytes = 0;
};

GlobalReduce global_reduce(const Dims& dims, DType input, const Gpu& gpu, ReductionKind kind) {
  const std::int64_t num_outputs = outputs(dims);
  const std::int64_t inputs_per_output = elements(dims) / num_outputs;
  const Block block = block_of(dims, input, kind);

  // Rows of the block share an output where each thread still has enough to do; only then may blocks share it too.
  std::int64_t step_input = block.reduces_fastest ? block.width : 1;
  const std::int64_t step_output = block.reduces_fastest ? 1 : block.width;
  if (ceil_div(inputs_per_output, step_input) < std::min(block.height * kMinValuesPerThread, kMaxValuesPerThread)) {
    return {};
  }
  step_input *= block.height;

  const std::int64_t values_per_thread = ceil_div(inputs_per_output, step_input);
  const std::int64_t grid = ceil_div(num_outputs / block.vector, step_output);
  const std::int64_t target_grid = gpu.sm_count * (gpu.max_threads_per_sm / (block.width * block.height));
  if (values_per_thread < kMaxValuesPerThread || grid > target_grid) return {};
  const std::int64_t blocks_per_output =
      std::max(std::min(ceil_div(target_grid, grid), ceil_div(values_per_thread, kMinValuesPerThread)),
               ceil_div(values_per_thread, kMaxValuesPerThread));
  if (blocks_per_output <= 1) return {};
  const std::int64_t lanes = block.reduces_fastest ? 1 : block.width * block.vector;
  return {size_of(accumulate_type(input)) * num_outputs * blocks_per_output * lanes, kSemaphoreBytes * grid};
}

}  // namespace

std::vector<std::int64_t> reduction_scratch(const Shape& shape, unsigned reduced, DType input, DType output,
                                            const Gpu& gpu, ReductionKind kind) {
  GlobalReduce largest;
  for (const Dims& part : parts_of(dims_of(shape, reduced, input, output))) {
    const GlobalReduce g = global_reduce(part, input, gpu, kind);
    if (g.buffer_bytes > largest.buffer_bytes) largest = g;
  }
  if (largest.buffer_bytes == 0) return {};
  return {largest.buffer_bytes, largest.semaphore_bytes};
}

ScratchProgram reduction_program(const Shape& shape, unsigned reduced, DType input, DType output, const Gpu& gpu,
                                 ReductionKind kind) {
  ScratchProgram program;
  ScratchWriter w(program);
  const std::vector<Dims> parts = parts_of(dims_of(shape, reduced, input, output));
  // Half types cannot keep the parts' running result in the output: a buffer of accumulators does, for the whole
  // reduction.
  const bool accumulates = parts.size() > 1 && size_of(output) < size_of(accumulate_type(input));
  if (accumulates)
    w.allocate(checked_mul(outputs(dims_of(shape, reduced, input, output)), size_of(accumulate_type(input))));
  for (const Dims& part : parts) {
    const GlobalReduce g = global_reduce(part, input, gpu, kind);
    if (g.buffer_bytes == 0) continue;
    const std::int64_t buffer = w.allocate(g.buffer_bytes);
    w.use(g.semaphore_bytes);
    w.release(buffer);
  }
  w.release_all();
  return program;
}

}  // namespace gpuplan
