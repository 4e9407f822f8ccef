#include "validate/cuda/kernels/lookup.h"

#include <cstdint>

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"
#include "validate/cuda/kernels/packed.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

// Moved as they are, in pieces of sizeof(T) bytes.
template <class T>
__global__ void __launch_bounds__(kThreads)
    embedding_kernel(const T* table, std::int64_t row_step, std::int64_t vocabulary, const void* indices, DType type,
                     T* out, std::int64_t count, std::int64_t width) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads, total = count * width;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < total; i += step) {
    const std::int64_t row = i / width;
    const std::int64_t v = type == DType::int64 ? static_cast<const std::int64_t*>(indices)[row]
                                                : static_cast<const std::int32_t*>(indices)[row];
    if (v >= 0 && v < vocabulary) out[i] = table[v * row_step + (i - row * width)];
  }
}

constexpr int kRows = 32;      // of the table, to a block: one bit each
constexpr int kListed = 2048;  // matches that a block keeps

__device__ __forceinline__ std::int64_t index_at(const void* indices, DType type, std::int64_t i) {
  return type == DType::int64 ? static_cast<const std::int64_t*>(indices)[i]
                              : static_cast<const std::int32_t*>(indices)[i];
}

// Where the matching threads of the block stand in their order, and how many there are.
struct Rank {
  int before, total;
};
__device__ __forceinline__ Rank rank_of(bool matches, int* warps) {
  const unsigned votes = __ballot_sync(0xFFFFFFFFU, matches);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();
  if (lane == 0) warps[warp] = __popc(votes);
  __syncthreads();
  Rank r{__popc(votes & ((1U << lane) - 1)), 0};
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) r.before += warps[w];
    r.total += warps[w];
  }
  return r;
}

// A block has kRows rows of the table. It looks through all indices and lists those of its rows in their order, as long
// as the list has room; then it adds up row after row. Rows with more matches look through the indices again.
template <class T>
__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(const T* grad, const void* indices, DType type, T* out, std::int64_t count,
                              std::int64_t vocabulary, std::int64_t width, bool adds) {
  using C = accumulate_t<T>;
  __shared__ std::int64_t places[kListed];
  __shared__ std::uint8_t rows[kListed];
  __shared__ int warps[kThreads / 32];
  const std::int64_t groups = (vocabulary + kRows - 1) / kRows;
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const std::int64_t base = group * kRows;
    int listed = 0;
    for (std::int64_t first = 0; first < count; first += kThreads) {
      const std::int64_t i = first + threadIdx.x;
      const std::int64_t row = i < count ? index_at(indices, type, i) - base : -1;
      const bool mine = row >= 0 && row < kRows;
      const Rank r = rank_of(mine, warps);
      if (mine && listed + r.before < kListed) {
        places[listed + r.before] = i;
        rows[listed + r.before] = static_cast<std::uint8_t>(row);
      }
      listed += r.total;
    }
    __syncthreads();
    const bool complete = listed <= kListed;
    for (int row = 0; row < kRows && base + row < vocabulary; ++row) {
      for (std::int64_t column = threadIdx.x; column < width; column += kThreads) {
        C sum = adds ? widen<C>(out[(base + row) * width + column]) : C(0);
        if (complete) {
          for (int k = 0; k < listed; ++k)
            if (rows[k] == row) sum += widen<C>(grad[places[k] * width + column]);
        } else {
          for (std::int64_t i = 0; i < count; ++i)
            if (index_at(indices, type, i) == base + row) sum += widen<C>(grad[i * width + column]);
        }
        out[(base + row) * width + column] = narrow<T>(sum);
      }
    }
    __syncthreads();
  }
}

// Moved as they are. at[0]: out, at[1]: the table without the dimension looked up, at[2]: the indices.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const T* table, const std::int64_t* index, T* out, Offsets<std::uint64_t, 3> offsets,
                  std::int64_t size, std::int64_t step_of_index, std::int64_t elements) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    std::int64_t at[3];
    offsets(static_cast<std::uint64_t>(i), at);
    std::int64_t v = index[at[2]];
    if (v < 0) v += size;
    if (v >= 0 && v < size) out[at[0]] = table[at[1] + v * step_of_index];
  }
}

struct Scattered {
  const void *values, *index;
  void* table;
  DType index_type;
  std::int64_t size, count;                          // of the table's dimension; of indices along it
  std::int64_t table_step, index_step, values_step;  // from one of them to the next
};

// A thread to a line, which it goes along: sums have one order. at[0]: the table, at[1]: the indices, at[2]: the
// values.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_kernel(Scattered a, Offsets<std::uint64_t, 3> offsets, std::int64_t lines, bool adds) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t line = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; line < lines; line += step) {
    std::int64_t at[3];
    offsets(static_cast<std::uint64_t>(line), at);
    for (std::int64_t i = 0; i < a.count; ++i) {
      const std::int64_t v = index_at(a.index, a.index_type, at[1] + i * a.index_step);
      if (v < 0 || v >= a.size) continue;
      T& to = static_cast<T*>(a.table)[at[0] + v * a.table_step];
      const T value = static_cast<const T*>(a.values)[at[2] + i * a.values_step];
      to = adds ? narrow<T>(widen<C>(to) + widen<C>(value)) : value;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    index_kernel(const T* table, const std::int64_t* rows, const std::int64_t* columns, T* out,
                 Offsets<std::uint64_t, 4> offsets, std::int64_t row_count, std::int64_t row_step,
                 std::int64_t column_count, std::int64_t column_step, std::int64_t elements) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    std::int64_t at[4];
    offsets(static_cast<std::uint64_t>(i), at);
    std::int64_t r = rows[at[2]], c = columns[at[3]];
    if (r < 0) r += row_count;
    if (c < 0) c += column_count;
    if (r >= 0 && r < row_count && c >= 0 && c < column_count)
      out[at[0]] = table[at[1] + r * row_step + c * column_step];
  }
}

template <class F>
void for_bytes(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    case 8: return f(std::uint64_t{});
    default: return f(uint4{});
  }
}

}  // namespace

void embedding(const LaunchContext& context, const KernelTensor& table, const KernelTensor& indices,
               const KernelTensor& out) {
  const std::int64_t count = elements_of(indices), bytes = size_of(table.dtype);
  std::int64_t width = table.sizes[1], by = 16;
  if (count * width == 0) return;
  if (table.strides[1] != 1 && width != 1) refuse("an embedding whose rows have gaps");
  const auto fits = [&](std::int64_t piece) {
    const auto p = static_cast<std::size_t>(piece);
    return width * bytes % piece == 0 && table.strides[0] * bytes % piece == 0 && aligned(table.data, p) &&
           aligned(out.data, p);
  };
  while (by > bytes && !fits(by)) by /= 2;
  width = width * bytes / by;
  for_bytes(by, [&](auto piece) {
    using T = decltype(piece);
    launch(embedding_kernel<T>, blocks_for(count * width, kThreads), kThreads, 0, context.stream,
           static_cast<const T*>(table.data), table.strides[0] * bytes / by, table.sizes[0], indices.data,
           indices.dtype, static_cast<T*>(out.data), count, width);
  });
  check_launch("embedding");
}

void embedding_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& indices,
                        const KernelTensor& out, bool adds) {
  const std::int64_t groups = (out.sizes[0] + kRows - 1) / kRows;
  if (groups == 0 || out.sizes[1] == 0) return;
  const bool known = for_floating(out.dtype, [&](auto type) {
    using T = decltype(type);
    launch(embedding_backward_kernel<T>, blocks_for(groups, 1), kThreads, 0, context.stream,
           static_cast<const T*>(grad.data), indices.data, indices.dtype, static_cast<T*>(out.data),
           elements_of(indices), out.sizes[0], out.sizes[1], adds);
  });
  if (!known) refuse("an embedding of integers");
  check_launch("embedding's gradient");
}

void gather(const LaunchContext& context, const KernelTensor& table, const KernelTensor& index, const KernelTensor& out,
            int dimension) {
  std::int64_t of_table[KernelTensor::kMaxRank] = {};
  for (int i = 0; i < out.rank; ++i) of_table[i] = i == dimension ? 0 : table.strides[i];
  const std::int64_t* strides[] = {out.strides, of_table, index.strides};
  const Walked w = walked(out.rank, out.sizes, strides, 3);
  if (w.elements == 0) return;
  for_bytes(size_of(out.dtype), [&](auto piece) {
    using T = decltype(piece);
    launch(gather_kernel<T>, blocks_for(w.elements, kThreads), kThreads, 0, context.stream,
           static_cast<const T*>(table.data), static_cast<const std::int64_t*>(index.data), static_cast<T*>(out.data),
           Offsets<std::uint64_t, 3>(w), table.sizes[dimension], table.strides[dimension], w.elements);
  });
  check_launch("gather");
}

void scatter(const LaunchContext& context, const KernelTensor& values, const KernelTensor& index,
             const KernelTensor& table, int dimension, bool adds) {
  std::int64_t sizes[KernelTensor::kMaxRank] = {}, of_table[KernelTensor::kMaxRank] = {},
               of_index[KernelTensor::kMaxRank] = {}, of_values[KernelTensor::kMaxRank] = {};
  int rank = 0;
  for (int i = 0; i < index.rank; ++i) {
    if (i == dimension) continue;
    sizes[rank] = index.sizes[i];
    of_table[rank] = table.strides[i];
    of_index[rank] = index.strides[i];
    of_values[rank++] = values.strides[i];
  }
  const std::int64_t* strides[] = {of_table, of_index, of_values};
  const Walked w = walked(rank, sizes, strides, 3);
  if (w.elements * index.sizes[dimension] == 0) return;
  const Scattered a{values.data,
                    index.data,
                    table.data,
                    index.dtype,
                    table.sizes[dimension],
                    index.sizes[dimension],
                    table.strides[dimension],
                    index.strides[dimension],
                    values.strides[dimension]};
  const auto run = [&](auto type) {
    launch(scatter_kernel<decltype(type)>, blocks_for(w.elements, kThreads), kThreads, 0, context.stream, a,
           Offsets<std::uint64_t, 3>(w), w.elements, adds);
  };
  if (table.dtype == DType::int64)
    run(std::int64_t{});
  else if (!for_floating(table.dtype, run))
    refuse("a scatter of this type");
  check_launch("scatter");
}

void index(const LaunchContext& context, const KernelTensor& table, const KernelTensor& rows,
           const KernelTensor& columns, const KernelTensor& out) {
  const int following = table.rank - 2, leading = out.rank - following;
  KernelTensor to = out;
  to.rank = leading;
  std::int64_t of_table[KernelTensor::kMaxRank] = {}, of_rows[KernelTensor::kMaxRank] = {},
               of_columns[KernelTensor::kMaxRank] = {};
  broadcast_strides(rows, to, of_rows);
  broadcast_strides(columns, to, of_columns);
  for (int i = 0; i < following; ++i) of_table[leading + i] = table.strides[2 + i];
  const std::int64_t* strides[] = {out.strides, of_table, of_rows, of_columns};
  const Walked w = walked(out.rank, out.sizes, strides, 4);
  if (w.elements == 0) return;
  for_bytes(size_of(out.dtype), [&](auto piece) {
    using T = decltype(piece);
    launch(index_kernel<T>, blocks_for(w.elements, kThreads), kThreads, 0, context.stream,
           static_cast<const T*>(table.data), static_cast<const std::int64_t*>(rows.data),
           static_cast<const std::int64_t*>(columns.data), static_cast<T*>(out.data), Offsets<std::uint64_t, 4>(w),
           table.sizes[0], table.strides[0], table.sizes[1], table.strides[1], w.elements);
  });
  check_launch("index");
}

}  // namespace gpuplan::cuda
