// Operands of any strides and types.
#include <utility>

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"
#include "validate/cuda/kernels/pointwise.h"
#include "validate/cuda/kernels/pointwise_ops.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kEach = 4;  // elements of a thread at a time

struct Source {
  const void* data;  // null stands for the number
  DType dtype;
  double number;
};

struct Arguments {
  Source operands[3];
  void* out;
  DType dtype;
  int operand_count;
  double p, q;
};

template <class C, class Index>
__device__ __forceinline__ void element(PointwiseOp op, const Arguments& w, const Offsets<Index, 4>& offsets, Index i) {
  std::int64_t at[4];
  offsets(i, at);
  C x[3] = {};
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    if (k >= w.operand_count) break;
    const Source& s = w.operands[k];
    x[k] = s.data != nullptr ? load<C>(s.data, s.dtype, at[k + 1]) : static_cast<C>(s.number);
  }
  const C y = apply<C>(op, x[0], x[1], x[2], static_cast<C>(w.p), static_cast<C>(w.q));
  store<C>(w.out, w.dtype, at[0], y);
}

template <PointwiseOp op>
__global__ void __launch_bounds__(kThreads) strided(Arguments w, Offsets<std::uint32_t, 4> offsets, std::uint32_t n) {
  const std::uint32_t first = blockIdx.x * kThreads * kEach + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const std::uint32_t i = first + k * kThreads;
    if (i < n) element<float>(op, w, offsets, i);
  }
}

// The operation is known when it runs: in fp64, and beyond 2^31 elements.
template <class C, class Index>
__global__ void __launch_bounds__(kThreads)
    strided_any(PointwiseOp op, Arguments w, Offsets<Index, 4> offsets, std::int64_t n) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step)
    element<C>(op, w, offsets, static_cast<Index>(i));
}

using Kernel = void (*)(Arguments, Offsets<std::uint32_t, 4>, std::uint32_t);

template <std::size_t... ops>
Kernel find(PointwiseOp op, std::index_sequence<ops...>) {
  static constexpr Kernel table[] = {strided<static_cast<PointwiseOp>(ops)>...};
  return table[static_cast<std::size_t>(op)];
}

template <class C, class Index>
void launch_any(const LaunchContext& context, PointwiseOp op, const Arguments& w, const Walked& walk) {
  const unsigned blocks = blocks_for(walk.elements, kThreads);
  launch(strided_any<C, Index>, blocks, kThreads, 0, context.stream, op, w, Offsets<Index, 4>(walk), walk.elements);
}

__global__ void __launch_bounds__(kThreads)
    arange_kernel(void* out, DType dtype, std::int64_t step, std::int64_t n, double first) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) store<double>(out, dtype, i * step, first + static_cast<double>(i));
}

}  // namespace

void pointwise(const LaunchContext& context, const Pointwise& what) {
  if (elements_of(what.out) == 0 || dense_pointwise(context, what)) return;
  Arguments w{{}, what.out.data, what.out.dtype, arity(what.op), what.parameters[0], what.parameters[1]};
  bool wide = wants_double(what.out.dtype);
  std::int64_t steps[3][KernelTensor::kMaxRank] = {};
  for (int k = 0; k < w.operand_count; ++k) {
    const PointwiseOperand& o = what.operands[k];
    w.operands[k] = {o.is_number ? nullptr : o.tensor.data, o.tensor.dtype, o.number};
    if (o.is_number) continue;
    wide = wide || wants_double(o.tensor.dtype);
    broadcast_strides(o.tensor, what.out, steps[k]);
  }
  const std::int64_t* strides[] = {what.out.strides, steps[0], steps[1], steps[2]};
  const Walked walk = walked(what.out.rank, what.out.sizes, strides, 4);
  const bool narrow_index = walk.elements < INT32_MAX;
  if (wide) {
    narrow_index ? launch_any<double, std::uint32_t>(context, what.op, w, walk)
                 : launch_any<double, std::uint64_t>(context, what.op, w, walk);
  } else if (!narrow_index) {
    launch_any<float, std::uint64_t>(context, what.op, w, walk);
  } else {
    const Kernel kernel = find(what.op, std::make_index_sequence<static_cast<std::size_t>(PointwiseOp::count)>{});
    const unsigned blocks = blocks_for(walk.elements, kThreads * kEach, INT32_MAX);
    launch(kernel, blocks, kThreads, 0, context.stream, w, Offsets<std::uint32_t, 4>(walk),
           static_cast<std::uint32_t>(walk.elements));
  }
  check_launch("a strided pointwise kernel");
}

void fill(const LaunchContext& context, const KernelTensor& to, double value) {
  Pointwise w;
  w.out = to;
  w.operands[0].is_number = true;
  w.operands[0].number = value;
  pointwise(context, w);
}

void convert(const LaunchContext& context, const KernelTensor& from, const KernelTensor& to) {
  Pointwise w;
  w.out = to;
  w.operands[0].tensor = from;
  pointwise(context, w);
}

void arange(const LaunchContext& context, const KernelTensor& to, double first) {
  const std::int64_t n = elements_of(to);
  if (n == 0) return;
  launch(arange_kernel, blocks_for(n, kThreads, INT32_MAX), kThreads, 0, context.stream, to.data, to.dtype,
         to.strides[0], n, first);
  check_launch("arange");
}

}  // namespace gpuplan::cuda
