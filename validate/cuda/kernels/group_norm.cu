// The sums are those of PyTorch's kernels (aten/src/ATen/native/cuda/group_norm_kernel.cu), each in one order.
#include "validate/cuda/kernels/group_norm.h"

#include "validate/cuda/kernels/block_sum.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 512, kChannelThreads = 32, kDown = 8;

struct Shape {
  std::int64_t n, channels, area, groups;
  bool last;
  __host__ __device__ std::int64_t width() const { return channels / groups; }  // channels of a group

  // Element i of a group, neighbours in memory being neighbours in number.
  __device__ __forceinline__ std::int64_t channel(std::int64_t group, std::int64_t i) const {
    const std::int64_t by = last ? width() : area, quotient = divided(i, by);
    return group % groups * width() + (last ? i - quotient * by : quotient);
  }
  __device__ __forceinline__ std::int64_t offset(std::int64_t group, std::int64_t i) const {
    if (!last) return group * width() * area + i;
    const std::int64_t pixel = divided(i, width());
    return (group / groups * area + pixel) * channels + group % groups * width() + i - pixel * width();
  }
  // Divisions of 32 bits take a fraction of the time.
  static __device__ __forceinline__ std::int64_t divided(std::int64_t i, std::int64_t by) {
    if ((i | by) <= INT32_MAX) return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(by);
    return i / by;
  }
};

template <class C>
__device__ __forceinline__ C inverse_root(C x) {
  return rsqrt(x);
}

template <class T>
struct Forward {
  const T *x, *weight, *bias;
  T* y;
  void *mean, *rstd;
  DType statistics;
  accumulate_t<T> eps;
};

// A block to a group, which is read three times: mean, variance, result.
template <class T>
__global__ void __launch_bounds__(kThreads) forward(Forward<T> a, Shape s) {
  using C = accumulate_t<T>;
  __shared__ C shared[32];
  const std::int64_t size = s.width() * s.area;
  for (std::int64_t group = blockIdx.x; group < s.n * s.groups; group += gridDim.x) {
    C mean = 0, squares = 0;
    for (std::int64_t i = threadIdx.x; i < size; i += kThreads) mean += widen<C>(a.x[s.offset(group, i)]);
    mean = over_block<kThreads>(mean, shared, Add{}) / static_cast<C>(size);
    for (std::int64_t i = threadIdx.x; i < size; i += kThreads) {
      const C d = widen<C>(a.x[s.offset(group, i)]) - mean;
      squares += d * d;
    }
    squares = over_block<kThreads>(squares, shared, Add{});
    const C rstd = inverse_root(squares / static_cast<C>(size) + a.eps);
    for (std::int64_t i = threadIdx.x; i < size; i += kThreads) {
      const std::int64_t at = s.offset(group, i), c = s.channel(group, i);
      C value = (widen<C>(a.x[at]) - mean) * rstd;
      if (a.weight != nullptr) value *= widen<C>(a.weight[c]);
      if (a.bias != nullptr) value += widen<C>(a.bias[c]);
      a.y[at] = narrow<T>(value);
    }
    if (threadIdx.x == 0) {
      store<C>(a.mean, a.statistics, group, mean);
      store<C>(a.rstd, a.statistics, group, rstd);
    }
  }
}

// sums[0][n, c] = the sum of grad x over the area, sums[1][n, c] = that of grad. Channels one after the other: a block
// to a channel; channels next to each other: a block to 32 of them.
template <class T>
__global__ void __launch_bounds__(kChannelThreads* kDown)
    channel_sums(const T* grad, const T* x, Shape s, accumulate_t<T>* sums) {
  using C = accumulate_t<T>;
  __shared__ C shared[kChannelThreads * kDown];
  const std::int64_t rows = s.n * s.channels;
  const int across = s.last ? kChannelThreads : 1, down = kChannelThreads * kDown / across;
  const int mine = static_cast<int>(threadIdx.x) % across, place = static_cast<int>(threadIdx.x) / across;
  const std::int64_t tiles = s.last ? (s.channels + across - 1) / across : s.channels;
  for (std::int64_t tile = blockIdx.x; tile < s.n * tiles; tile += gridDim.x) {
    const std::int64_t n = tile / tiles, c = tile % tiles * across + mine;
    C product = 0, sum = 0;
    if (c < s.channels) {
      const std::int64_t first = s.last ? n * s.area * s.channels + c : (n * s.channels + c) * s.area;
      const std::int64_t step = s.last ? s.channels : 1;
      for (std::int64_t i = place; i < s.area; i += down) {
        const C g = widen<C>(grad[first + i * step]);
        product += g * widen<C>(x[first + i * step]);
        sum += g;
      }
    }
    product = over_threads(product, shared, down, across, Add{});
    sum = over_threads(sum, shared, down, across, Add{});
    if (place == 0 && c < s.channels) {
      sums[n * s.channels + c] = product;
      sums[rows + n * s.channels + c] = sum;
    }
  }
}

template <class T>
struct Backward {
  const T *grad, *x, *weight;
  const void *mean, *rstd;
  DType statistics;
  const accumulate_t<T>* sums;
  T *dx, *dweight, *dbias;
};

// dx = rstd (g w - mean(g w) - xhat mean(g w xhat)): a block to a part of a group.
template <class T>
__global__ void __launch_bounds__(kThreads) input_gradient(Backward<T> a, Shape s) {
  using C = accumulate_t<T>;
  __shared__ C shared[32];
  const std::int64_t size = s.width() * s.area, rows = s.n * s.channels;
  for (std::int64_t group = blockIdx.x; group < s.n * s.groups; group += gridDim.x) {
    const C mean = load<C>(a.mean, a.statistics, group), rstd = load<C>(a.rstd, a.statistics, group);
    C of_mean = 0, of_rstd = 0;
    for (std::int64_t i = threadIdx.x; i < s.width(); i += kThreads) {
      const std::int64_t c = group % s.groups * s.width() + i, row = group / s.groups * s.channels + c;
      const C w = a.weight != nullptr ? widen<C>(a.weight[c]) : C(1);
      of_mean += w * a.sums[rows + row];
      of_rstd += w * (a.sums[row] - mean * a.sums[rows + row]) * rstd;
    }
    of_mean = over_block<kThreads>(of_mean, shared, Add{}) / static_cast<C>(size);
    of_rstd = over_block<kThreads>(of_rstd, shared, Add{}) / static_cast<C>(size);
    const std::int64_t step = std::int64_t{gridDim.y} * kThreads;
    for (std::int64_t i = std::int64_t{blockIdx.y} * kThreads + threadIdx.x; i < size; i += step) {
      const std::int64_t at = s.offset(group, i);
      const C w = a.weight != nullptr ? widen<C>(a.weight[s.channel(group, i)]) : C(1);
      const C normal = (widen<C>(a.x[at]) - mean) * rstd;
      a.dx[at] = narrow<T>(rstd * (widen<C>(a.grad[at]) * w - of_mean - normal * of_rstd));
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) weight_gradients(Backward<T> a, Shape s) {
  using C = accumulate_t<T>;
  const std::int64_t c = std::int64_t{blockIdx.x} * kThreads + threadIdx.x, rows = s.n * s.channels;
  if (c >= s.channels) return;
  C weight = 0, bias = 0;
  for (std::int64_t n = 0; n < s.n; ++n) {
    const std::int64_t row = n * s.channels + c, group = n * s.groups + c / s.width();
    const C mean = load<C>(a.mean, a.statistics, group), rstd = load<C>(a.rstd, a.statistics, group);
    weight += (a.sums[row] - mean * a.sums[rows + row]) * rstd;
    bias += a.sums[rows + row];
  }
  if (a.dweight != nullptr) a.dweight[c] = narrow<T>(weight);
  if (a.dbias != nullptr) a.dbias[c] = narrow<T>(bias);
}

template <class T>
T* data(const KernelTensor& t) {
  return static_cast<T*>(t.data);
}

Shape shape_of(const GroupNormTensors& t) { return {t.n, t.channels, t.area, t.groups, t.channels_last}; }

template <class T>
void run_backward(const LaunchContext& context, const GroupNormTensors& t, void* room) {
  using C = accumulate_t<T>;
  const Shape s = shape_of(t);
  C* sums = static_cast<C*>(room);
  const std::int64_t tiles = s.last ? (s.channels + kChannelThreads - 1) / kChannelThreads : s.channels;
  launch(channel_sums<T>, blocks_for(s.n * tiles, 1), kChannelThreads * kDown, 0, context.stream, data<const T>(t.grad),
         data<const T>(t.x), s, sums);
  check_launch("the sums of group norm's channels");
  const Backward<T> a{
      data<const T>(t.grad), data<const T>(t.x), data<const T>(t.weight), t.mean.data, t.rstd.data, t.mean.dtype, sums,
      data<T>(t.dx),         data<T>(t.dweight), data<T>(t.dbias)};
  if (a.dx != nullptr) {
    const unsigned groups = blocks_for(s.n * s.groups, 1);
    // Few groups are shared by several blocks each, so that there are some waves of them.
    const auto wanted = static_cast<unsigned>(context.multiprocessors * 8) / groups + 1;
    const unsigned parts = blocks_for(s.width() * s.area, kThreads * 4, wanted < 65535 ? wanted : 65535);
    launch(input_gradient<T>, dim3(groups, parts), kThreads, 0, context.stream, a, s);
    check_launch("group norm's gradient");
  }
  if (a.dweight == nullptr && a.dbias == nullptr) return;
  launch(weight_gradients<T>, blocks_for(s.channels, kThreads), kThreads, 0, context.stream, a, s);
  check_launch("group norm's gradients of the weights");
}

}  // namespace

void group_norm(const LaunchContext& context, const GroupNormTensors& t, double eps) {
  const Shape s = shape_of(t);
  if (s.n * s.channels * s.area == 0) return;
  const bool known = for_floating(t.x.dtype, [&](auto type) {
    using T = decltype(type);
    const Forward<T> a{data<const T>(t.x),    data<const T>(t.weight),
                       data<const T>(t.bias), data<T>(t.y),
                       t.mean.data,           t.rstd.data,
                       t.mean.dtype,          static_cast<accumulate_t<T>>(eps)};
    launch(forward<T>, blocks_for(s.n * s.groups, 1), kThreads, 0, context.stream, a, s);
  });
  if (!known) refuse("group norm of integers");
  check_launch("group norm");
}

void group_norm_backward(const LaunchContext& context, const GroupNormTensors& t, void* sums) {
  if (t.n * t.channels * t.area == 0) return;
  if (!for_floating(t.x.dtype, [&](auto type) { run_backward<decltype(type)>(context, t, sums); }))
    refuse("group norm of integers");
}

}  // namespace gpuplan::cuda
