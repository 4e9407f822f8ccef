#include "validate/cuda/kernels/scan.h"

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

// A block to a row, a tile of as many elements as it has threads after the other.
template <class C>
__global__ void __launch_bounds__(kThreads)
    cumsum_kernel(const void* x, DType x_type, void* y, DType y_type, Offsets<std::uint64_t, 2> rows,
                  std::int64_t count, std::int64_t length, std::int64_t y_step, std::int64_t x_step) {
  __shared__ C sums[2][kThreads];
  const int me = static_cast<int>(threadIdx.x);
  for (std::int64_t row = blockIdx.x; row < count; row += gridDim.x) {
    std::int64_t at[2];
    rows(static_cast<std::uint64_t>(row), at);
    C before = 0;
    for (std::int64_t first = 0; first < length; first += kThreads) {
      const std::int64_t i = first + me;
      int side = 0;
      sums[side][me] = i < length ? load<C>(x, x_type, at[1] + i * x_step) : C(0);
      __syncthreads();
      for (int distance = 1; distance < kThreads; distance *= 2) {
        const C sum = sums[side][me] + (me >= distance ? sums[side][me - distance] : C(0));
        side = 1 - side;
        sums[side][me] = sum;
        __syncthreads();
      }
      if (i < length) store<C>(y, y_type, at[0] + i * y_step, before + sums[side][me]);
      before += sums[side][kThreads - 1];
      __syncthreads();
    }
  }
}

}  // namespace

void cumsum(const LaunchContext& context, const KernelTensor& x, const KernelTensor& y, int dimension) {
  std::int64_t sizes[KernelTensor::kMaxRank], of_x[KernelTensor::kMaxRank], of_y[KernelTensor::kMaxRank];
  int rank = 0;
  for (int i = 0; i < y.rank; ++i) {
    if (i == dimension) continue;
    sizes[rank] = y.sizes[i];
    of_x[rank] = x.strides[i];
    of_y[rank++] = y.strides[i];
  }
  const std::int64_t* strides[] = {of_y, of_x};
  const Walked w = walked(rank, sizes, strides, 2);
  const std::int64_t length = y.sizes[dimension];
  if (w.elements * length == 0) return;
  const Offsets<std::uint64_t, 2> rows(w);
  const auto run = [&](auto kernel) {
    launch(kernel, blocks_for(w.elements, 1), kThreads, 0, context.stream, x.data, x.dtype, y.data, y.dtype, rows,
           w.elements, length, y.strides[dimension], x.strides[dimension]);
  };
  if (!is_floating(y.dtype))
    run(cumsum_kernel<std::int64_t>);
  else if (y.dtype == DType::fp64)
    run(cumsum_kernel<double>);
  else
    run(cumsum_kernel<float>);
  check_launch("cumsum");
}

}  // namespace gpuplan::cuda
