#include "validate/cuda/kernels/reduce.h"

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

struct Arguments {
  const void* in;
  void* out;
  DType in_type, out_type;
  std::int64_t outputs, reduced;
  std::int64_t chunk;  // of the reduced elements, to a block
  int across;          // threads of a block on neighbouring outputs; the others share an output's elements
  bool partial;        // writes sums of chunks, [chunk][output], in C
  double scale;
};

template <class C, Reducing what>
__device__ __forceinline__ C combine(C a, C b) {
  if (what == Reducing::sum) return a + b;
  if (what == Reducing::all) return a != C(0) && b != C(0) ? C(1) : C(0);
  return a != C(0) || b != C(0) ? C(1) : C(0);
}

// Each thread adds every `down`-th element of its chunk, then the threads of an output are added pairwise.
template <class C, Reducing what, class Index>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(Arguments a, Offsets<Index, 2> outer, Offsets<Index, 1> inner) {
  __shared__ C sums[kThreads];
  constexpr C kNothing = what == Reducing::all ? C(1) : C(0);
  const int x = static_cast<int>(threadIdx.x) % a.across, y = static_cast<int>(threadIdx.x) / a.across;
  const int down = kThreads / a.across;
  const std::int64_t first = blockIdx.y * a.chunk;
  const std::int64_t last = first + a.chunk < a.reduced ? first + a.chunk : a.reduced;
  for (std::int64_t group = blockIdx.x; group * a.across < a.outputs; group += gridDim.x) {
    const std::int64_t output = group * a.across + x;
    std::int64_t at[2] = {};
    C sum = kNothing;
    if (output < a.outputs) {
      outer(static_cast<Index>(output), at);
#pragma unroll 4
      for (std::int64_t i = first + y; i < last; i += down) {
        std::int64_t offset[1];
        inner(static_cast<Index>(i), offset);
        sum = combine<C, what>(sum, load<C>(a.in, a.in_type, at[1] + offset[0]));
      }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = down / 2; half > 0; half /= 2) {
      if (y < half) sums[threadIdx.x] = combine<C, what>(sums[threadIdx.x], sums[threadIdx.x + half * a.across]);
      __syncthreads();
    }
    if (y == 0 && output < a.outputs) {
      if (a.partial) {
        static_cast<C*>(a.out)[blockIdx.y * a.outputs + output] = sums[x];
      } else {
        store<C>(a.out, a.out_type, at[0], what == Reducing::sum ? sums[x] * static_cast<C>(a.scale) : sums[x]);
      }
    }
    __syncthreads();
  }
}

struct Dimensions {
  Walked outer, inner;  // outer: strides of the result, then of the input
};

Dimensions split(const KernelTensor& in, const KernelTensor& out, unsigned reduced) {
  std::int64_t outer_sizes[KernelTensor::kMaxRank], inner_sizes[KernelTensor::kMaxRank];
  std::int64_t of_out[KernelTensor::kMaxRank], of_in[KernelTensor::kMaxRank], of_inner[KernelTensor::kMaxRank];
  int kept = 0, gone = 0;
  const bool keeps = out.rank == in.rank;
  for (int i = 0; i < in.rank; ++i) {
    if ((reduced >> i & 1U) != 0) {
      inner_sizes[gone] = in.sizes[i];
      of_inner[gone++] = in.strides[i];
    } else {
      outer_sizes[kept] = in.sizes[i];
      of_out[kept] = out.strides[keeps ? i : kept];
      of_in[kept++] = in.strides[i];
    }
  }
  // Neighbouring outputs are those that neighbour in the input, which is the bigger one.
  const std::int64_t* outer[] = {of_in, of_out};
  const std::int64_t* inner[] = {of_inner};
  Dimensions d{walked(kept, outer_sizes, outer, 2), walked(gone, inner_sizes, inner, 1)};
  for (int i = 0; i < d.outer.rank; ++i) {
    const std::int64_t stride = d.outer.strides[0][i];
    d.outer.strides[0][i] = d.outer.strides[1][i];
    d.outer.strides[1][i] = stride;
  }
  return d;
}

template <class C, Reducing what>
void launch_reduction(const LaunchContext& context, const Arguments& a, const Dimensions& d, unsigned chunks) {
  const dim3 grid(blocks_for(a.outputs, a.across), chunks);
  const bool narrow_index = a.outputs < INT32_MAX && a.reduced < INT32_MAX;
  if (narrow_index) {
    using Index = std::uint32_t;
    launch(reduce_kernel<C, what, Index>, grid, kThreads, 0, context.stream, a, Offsets<Index, 2>(d.outer),
           Offsets<Index, 1>(d.inner));
  } else {
    using Index = std::uint64_t;
    launch(reduce_kernel<C, what, Index>, grid, kThreads, 0, context.stream, a, Offsets<Index, 2>(d.outer),
           Offsets<Index, 1>(d.inner));
  }
  check_launch("a reduction");
}

// Rows of memory are read by neighbouring threads: across the outputs where these lie densest.
int threads_across(const Dimensions& d) {
  const bool inner_is_fast = d.inner.rank > 0 && d.inner.strides[0][0] == 1;
  const bool outer_is_fast = d.outer.rank > 0 && d.outer.strides[1][0] == 1;
  if (!inner_is_fast && outer_is_fast && d.outer.elements >= 8) return 32;
  if (d.inner.elements >= 128) return 1;
  return d.inner.elements >= 16 ? 16 : kThreads;
}

template <class C, Reducing what>
void run(const LaunchContext& context, Arguments a, const Dimensions& d) {
  const std::int64_t blocks = blocks_for(a.outputs, a.across);
  const std::int64_t wanted = 4 * context.multiprocessors / blocks;
  const std::int64_t room = context.partial_bytes / (a.outputs * std::int64_t{sizeof(C)});
  std::int64_t chunks = a.reduced / 2048;
  chunks = chunks < wanted ? chunks : wanted;
  chunks = chunks < room ? chunks : room;
  if (chunks < 2) {
    a.chunk = a.reduced;
    return launch_reduction<C, what>(context, a, d, 1);
  }
  Arguments first = a;
  first.chunk = (a.reduced + chunks - 1) / chunks;
  chunks = (a.reduced + first.chunk - 1) / first.chunk;
  first.partial = true;
  first.out = context.partials;
  launch_reduction<C, what>(context, first, d, static_cast<unsigned>(chunks));

  Dimensions rest;
  rest.inner.rank = 1;
  rest.inner.elements = rest.inner.sizes[0] = chunks;
  rest.inner.strides[0][0] = a.outputs;
  rest.outer = d.outer;
  // The partial sums lie in the order of the outputs.
  std::int64_t step = 1;
  for (int i = 0; i < rest.outer.rank; ++i) {
    rest.outer.strides[1][i] = step;
    step *= rest.outer.sizes[i];
  }
  Arguments second = a;
  second.in = context.partials;
  second.in_type = sizeof(C) == sizeof(double) ? DType::fp64 : DType::fp32;
  second.reduced = second.chunk = chunks;
  second.across = a.outputs >= 32 ? 32 : 1;
  launch_reduction<C, what>(context, second, rest, 1);
}

}  // namespace

void reduce(const LaunchContext& context, Reducing what, const KernelTensor& in, const KernelTensor& out,
            unsigned dimensions, double scale) {
  const Dimensions d = split(in, out, dimensions);
  if (d.outer.elements == 0) return;
  const Arguments a{in.data,          out.data, in.dtype,          out.dtype, d.outer.elements,
                    d.inner.elements, 0,        threads_across(d), false,     scale};
  const bool wide = wants_double(in.dtype) || wants_double(out.dtype);
  if (what == Reducing::all) return run<float, Reducing::all>(context, a, d);
  if (what == Reducing::any) return run<float, Reducing::any>(context, a, d);
  wide ? run<double, Reducing::sum>(context, a, d) : run<float, Reducing::sum>(context, a, d);
}

}  // namespace gpuplan::cuda
