#include "validate/cuda/kernels/batch_norm.h"

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"
#include "validate/cuda/kernels/packed.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

// Element (channel, row) of a dense image: rows are samples and positions. Neighbours in memory are positions
// (row-major) or channels (channels-last).
struct Layout {
  std::int64_t channels = 0, area = 1, rows = 0;
  bool channels_last = false;

  __device__ __forceinline__ std::int64_t at(std::int64_t channel, std::int64_t row) const {
    if (channels_last) return row * channels + channel;
    const std::int64_t sample = row / area;
    return (sample * channels + channel) * area + (row - sample * area);
  }
  __device__ __forceinline__ std::int64_t channel_at(std::int64_t i) const {
    return channels_last ? i % channels : i / area % channels;
  }
  __device__ __forceinline__ std::int64_t row_at(std::int64_t i) const {
    return channels_last ? i / channels : i / (area * channels) * area + i % area;
  }
};

// One of two kinds of array: what the batch gave, or the running variance, whose inverse root is taken when it is read.
struct PerChannel {
  const void* data = nullptr;
  DType dtype = DType::fp32;

  template <class C>
  __device__ __forceinline__ C operator()(std::int64_t channel, C otherwise) const {
    return data == nullptr ? otherwise : load<C>(data, dtype, channel);
  }
};

struct Moments {
  PerChannel mean, spread;
  bool spread_is_variance = false;
  double eps = 0;

  template <class C>
  __device__ __forceinline__ C invstd(std::int64_t channel) const {
    const C s = spread(channel, C(1));
    return spread_is_variance ? C(1) / sqrt(s + static_cast<C>(eps)) : s;
  }
};

template <class C>
struct Moment {
  C count, mean, squares;  // squares: of the distances from the mean
};

// Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
template <class C>
__device__ __forceinline__ Moment<C> merged(const Moment<C>& a, const Moment<C>& b) {
  const C count = a.count + b.count;
  if (count == C(0)) return a;
  const C distance = b.mean - a.mean, part = b.count / count;
  return {count, a.mean + distance * part, a.squares + b.squares + distance * distance * a.count * part};
}

// Threads of a block side by side on `across` channels; the others share a channel's rows.
struct Shares {
  int across;
  std::int64_t chunk;  // rows of a block
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    moments(const T* x, Layout layout, Shares shares, Moment<accumulate_t<T>>* partial) {
  using C = accumulate_t<T>;
  __shared__ Moment<C> shared[kThreads];
  const int lane = static_cast<int>(threadIdx.x) / shares.across, lanes = kThreads / shares.across;
  const std::int64_t channel = std::int64_t{blockIdx.x} * shares.across + static_cast<int>(threadIdx.x) % shares.across;
  const std::int64_t first = blockIdx.y * shares.chunk + lane, end = (blockIdx.y + 1) * shares.chunk;
  const std::int64_t last = end < layout.rows ? end : layout.rows;
  Moment<C> mine{C(0), C(0), C(0)};
  if (channel < layout.channels && first < last) {
    // Distances from the first element, so that no big numbers cancel.
    const C origin = widen<C>(x[layout.at(channel, first)]);
    C sum = 0, squares = 0, count = 0;
#pragma unroll 4
    for (std::int64_t row = first; row < last; row += lanes) {
      const C d = widen<C>(x[layout.at(channel, row)]) - origin;
      sum += d;
      squares += d * d;
      count += C(1);
    }
    mine = {count, origin + sum / count, squares - sum * sum / count};
  }
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (int half = lanes / 2; half > 0; half /= 2) {
    if (lane < half) shared[threadIdx.x] = merged(shared[threadIdx.x], shared[threadIdx.x + half * shares.across]);
    __syncthreads();
  }
  if (lane == 0 && channel < layout.channels) partial[blockIdx.y * layout.channels + channel] = shared[threadIdx.x];
}

template <class C>
__global__ void __launch_bounds__(kThreads)
    finish_moments(const Moment<C>* partial, std::int64_t channels, int chunks, C* mean, C* invstd,
                   KernelTensor running_mean, KernelTensor running_variance, C momentum, C eps) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (channel >= channels) return;
  Moment<C> m = partial[channel];
  for (int k = 1; k < chunks; ++k) m = merged(m, partial[k * channels + channel]);
  mean[channel] = m.mean;
  invstd[channel] = C(1) / sqrt(m.squares / m.count + eps);
  const auto move = [&](const KernelTensor& t, C to) {
    if (t.data == nullptr) return;
    const C was = load<C>(t.data, t.dtype, channel);
    store<C>(t.data, t.dtype, channel, (C(1) - momentum) * was + momentum * to);
  };
  move(running_mean, m.mean);
  move(running_variance, m.squares / (m.count - C(1)));
}

// One pack a thread at a time: elements of it may belong to several channels.
template <class T, int n>
__global__ void __launch_bounds__(kThreads) normalize(const T* x, T* y, Layout layout, Moments moments,
                                                      PerChannel weight, PerChannel bias, std::int64_t packs) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const Packed<T, n> in = reinterpret_cast<const Packed<T, n>*>(x)[i];
    Packed<T, n> out;
    C mean = 0, scale = 0, shift = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (k == 0 || layout.channels_last) {  // row-major packs lie within a channel
        const std::int64_t channel = layout.channel_at(i * n + k);
        mean = moments.mean(channel, C(0));
        scale = moments.invstd<C>(channel) * weight(channel, C(1));
        shift = bias(channel, C(0));
      }
      out.values[k] = narrow<T>((widen<C>(in.values[k]) - mean) * scale + shift);
    }
    reinterpret_cast<Packed<T, n>*>(y)[i] = out;
  }
}

template <class C>
struct Sums {
  C grad, product;  // product: of grad and the input's distance from the mean
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    gradient_sums(const T* x, const T* grad, Layout layout, Layout gradient, Moments moments, Shares shares,
                  Sums<accumulate_t<T>>* partial) {
  using C = accumulate_t<T>;
  __shared__ Sums<C> shared[kThreads];
  const int lane = static_cast<int>(threadIdx.x) / shares.across, lanes = kThreads / shares.across;
  const std::int64_t channel = std::int64_t{blockIdx.x} * shares.across + static_cast<int>(threadIdx.x) % shares.across;
  const std::int64_t first = blockIdx.y * shares.chunk + lane, end = (blockIdx.y + 1) * shares.chunk;
  const std::int64_t last = end < layout.rows ? end : layout.rows;
  Sums<C> mine{C(0), C(0)};
  if (channel < layout.channels) {
    const C mean = moments.mean(channel, C(0));
#pragma unroll 4
    for (std::int64_t row = first; row < last; row += lanes) {
      const C g = widen<C>(grad[gradient.at(channel, row)]);
      mine.grad += g;
      mine.product += g * (widen<C>(x[layout.at(channel, row)]) - mean);
    }
  }
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (int half = lanes / 2; half > 0; half /= 2) {
    if (lane < half) {
      shared[threadIdx.x].grad += shared[threadIdx.x + half * shares.across].grad;
      shared[threadIdx.x].product += shared[threadIdx.x + half * shares.across].product;
    }
    __syncthreads();
  }
  if (lane == 0 && channel < layout.channels) partial[blockIdx.y * layout.channels + channel] = shared[threadIdx.x];
}

// The first chunk's place holds the totals afterwards.
template <class C>
__global__ void __launch_bounds__(kThreads)
    finish_gradients(Sums<C>* partial, std::int64_t channels, int chunks, Moments moments, KernelTensor dweight,
                     KernelTensor dbias) {
  const std::int64_t channel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (channel >= channels) return;
  Sums<C> total = partial[channel];
  for (int k = 1; k < chunks; ++k) {
    total.grad += partial[k * channels + channel].grad;
    total.product += partial[k * channels + channel].product;
  }
  partial[channel] = total;
  if (dweight.data != nullptr)
    store<C>(dweight.data, dweight.dtype, channel, total.product * moments.invstd<C>(channel));
  if (dbias.data != nullptr) store<C>(dbias.data, dbias.dtype, channel, total.grad);
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    input_gradient(const T* x, const T* grad, T* dx, Layout layout, Moments moments, PerChannel weight,
                   const Sums<accumulate_t<T>>* totals, bool training, std::int64_t packs) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const C share = C(1) / static_cast<C>(layout.rows);
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    const Packed<T, n> in = reinterpret_cast<const Packed<T, n>*>(x)[i];
    const Packed<T, n> g = reinterpret_cast<const Packed<T, n>*>(grad)[i];
    Packed<T, n> out;
    C mean = 0, scale = 0, average = 0, slope = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (k == 0 || layout.channels_last) {
        const std::int64_t channel = layout.channel_at(i * n + k);
        const C invstd = moments.invstd<C>(channel);
        scale = invstd * weight(channel, C(1));
        if (training) {
          mean = moments.mean(channel, C(0));
          average = totals[channel].grad * share;
          slope = totals[channel].product * share * invstd * invstd;
        }
      }
      const C d = widen<C>(g.values[k]) - average - (widen<C>(in.values[k]) - mean) * slope;
      out.values[k] = narrow<T>(d * scale);
    }
    reinterpret_cast<Packed<T, n>*>(dx)[i] = out;
  }
}

// Where the gradients lie otherwise than the input.
template <class T>
__global__ void __launch_bounds__(kThreads)
    input_gradient_between(const T* x, const T* grad, T* dx, Layout layout, Layout gradient, Layout result,
                           Moments moments, PerChannel weight, const Sums<accumulate_t<T>>* totals, bool training,
                           std::int64_t elements) {
  using C = accumulate_t<T>;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const C share = C(1) / static_cast<C>(layout.rows);
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < elements; i += step) {
    const std::int64_t channel = layout.channel_at(i), row = layout.row_at(i);
    const C invstd = moments.invstd<C>(channel);
    C d = widen<C>(grad[gradient.at(channel, row)]);
    if (training) {
      d -= totals[channel].grad * share;
      d -= (widen<C>(x[i]) - moments.mean(channel, C(0))) * totals[channel].product * share * invstd * invstd;
    }
    dx[result.at(channel, row)] = narrow<T>(d * invstd * weight(channel, C(1)));
  }
}

Layout layout_of(const KernelTensor& x) {
  Layout l;
  l.channels = x.sizes[1];
  for (int i = 2; i < x.rank; ++i) l.area *= x.sizes[i];
  l.rows = x.sizes[0] * l.area;
  l.channels_last = l.area == 1 || !is_row_major(x);
  return l;
}

bool is_channels_last(const KernelTensor& t) {
  std::int64_t step = 1;
  const auto has = [&](int i) {
    const bool fits = t.sizes[i] == 1 || t.strides[i] == step;
    step *= t.sizes[i];
    return fits;
  };
  if (!has(1)) return false;
  for (int i = t.rank - 1; i > 1; --i)
    if (!has(i)) return false;
  return has(0);
}

struct Grid {
  Shares shares;
  dim3 blocks;
  int chunks;
};

// Enough blocks for the GPU, as far as their partial results have room.
Grid grid_of(const LaunchContext& context, const Layout& l, std::size_t bytes) {
  const int across = l.channels_last ? 32 : 1;
  const std::int64_t groups = (l.channels + across - 1) / across;
  const std::int64_t room = context.partial_bytes / (l.channels * static_cast<std::int64_t>(bytes));
  std::int64_t chunks = (4 * context.multiprocessors + groups - 1) / groups;
  const std::int64_t most = l.rows * across / (4 * kThreads);
  chunks = chunks < most ? chunks : most;
  chunks = chunks < room ? chunks : room;
  if (room < 1) refuse("too many channels for their partial sums");
  chunks = chunks < 1 ? 1 : chunks;
  const std::int64_t chunk = (l.rows + chunks - 1) / chunks;
  chunks = (l.rows + chunk - 1) / chunk;
  return {
      {across, chunk}, dim3(static_cast<unsigned>(groups), static_cast<unsigned>(chunks)), static_cast<int>(chunks)};
}

PerChannel per_channel(const KernelTensor& t) { return {t.data, t.dtype}; }

template <class T>
bool fits_packs(const Layout& l, std::initializer_list<const void*> data) {
  bool fits = l.channels * l.rows % kPack<T> == 0 && (l.channels_last || l.area % kPack<T> == 0);
  for (const void* p : data) fits = fits && aligned(p, 16);
  return fits;
}

template <class T>
void run_normalize(const LaunchContext& context, const BatchNormTensors& t, const Layout& l, const Moments& m) {
  const T* x = static_cast<const T*>(t.x.data);
  T* y = static_cast<T*>(t.y.data);
  const bool packed = fits_packs<T>(l, {x, y});
  const std::int64_t packs = l.channels * l.rows / (packed ? kPack<T> : 1);
  const auto kernel = packed ? normalize<T, kPack<T>> : normalize<T, 1>;
  launch(kernel, blocks_for(packs, kThreads), kThreads, 0, context.stream, x, y, l, m, per_channel(t.weight),
         per_channel(t.bias), packs);
  check_launch("batch norm");
}

template <class T>
void run_training(const LaunchContext& context, const BatchNormTensors& t, double momentum, double eps) {
  using C = accumulate_t<T>;
  const Layout l = layout_of(t.x);
  const Grid grid = grid_of(context, l, sizeof(Moment<C>));
  auto* partial = static_cast<Moment<C>*>(context.partials);
  launch(moments<T>, grid.blocks, kThreads, 0, context.stream, static_cast<const T*>(t.x.data), l, grid.shares,
         partial);
  check_launch("batch norm's moments");
  launch(finish_moments<C>, blocks_for(l.channels, kThreads), kThreads, 0, context.stream, partial, l.channels,
         grid.chunks, static_cast<C*>(t.mean.data), static_cast<C*>(t.invstd.data), t.running_mean, t.running_variance,
         static_cast<C>(momentum), static_cast<C>(eps));
  check_launch("batch norm's moments");
  run_normalize<T>(context, t, l, {per_channel(t.mean), per_channel(t.invstd), false, eps});
}

template <class T>
void run_backward(const LaunchContext& context, const BatchNormTensors& t, const Moments& m, bool training) {
  using C = accumulate_t<T>;
  const Layout l = layout_of(t.x);
  const Grid grid = grid_of(context, l, sizeof(Sums<C>));
  auto* partial = static_cast<Sums<C>*>(context.partials);
  const T* x = static_cast<const T*>(t.x.data);
  const T* grad = static_cast<const T*>(t.grad.data);
  T* dx = static_cast<T*>(t.dx.data);
  const Layout gradient = layout_of(t.grad);
  launch(gradient_sums<T>, grid.blocks, kThreads, 0, context.stream, x, grad, l, gradient, m, grid.shares, partial);
  check_launch("the sums of batch norm's gradient");
  launch(finish_gradients<C>, blocks_for(l.channels, kThreads), kThreads, 0, context.stream, partial, l.channels,
         grid.chunks, m, t.dweight, t.dbias);
  check_launch("the sums of batch norm's gradient");
  if (dx == nullptr) return;
  if (!same_layout(t.grad, t.x) || !same_layout(t.dx, t.x)) {
    const std::int64_t elements = l.channels * l.rows;
    launch(input_gradient_between<T>, blocks_for(elements, kThreads), kThreads, 0, context.stream, x, grad, dx, l,
           gradient, layout_of(t.dx), m, per_channel(t.weight), partial, training, elements);
    return check_launch("batch norm's gradient");
  }
  const bool packed = fits_packs<T>(l, {x, grad, dx});
  const std::int64_t packs = l.channels * l.rows / (packed ? kPack<T> : 1);
  const auto kernel = packed ? input_gradient<T, kPack<T>> : input_gradient<T, 1>;
  launch(kernel, blocks_for(packs, kThreads), kThreads, 0, context.stream, x, grad, dx, l, m, per_channel(t.weight),
         partial, training, packs);
  check_launch("batch norm's gradient");
}

Moments running(const BatchNormTensors& t, double eps) {
  return {per_channel(t.running_mean), per_channel(t.running_variance), true, eps};
}

}  // namespace

const char* batch_norm_refusal(const BatchNormTensors& t) {
  if (t.x.rank < 2 || !is_floating(t.x.dtype)) return "batch norm of something that has no channels";
  for (const KernelTensor* image : {&t.x, &t.y, &t.grad, &t.dx}) {
    if (image->rank == 0) continue;
    if (!is_row_major(*image) && !is_channels_last(*image)) return "batch norm of an image with gaps";
    if (image->dtype != t.x.dtype) return "batch norm between images of two types";
  }
  return t.y.rank > 0 && !same_layout(t.y, t.x) ? "batch norm between images of two layouts" : "";
}

void batch_norm_training(const LaunchContext& context, const BatchNormTensors& t, double momentum, double eps) {
  for_floating(t.x.dtype, [&](auto type) { run_training<decltype(type)>(context, t, momentum, eps); });
}

void batch_norm_inference(const LaunchContext& context, const BatchNormTensors& t, double eps) {
  const Layout l = layout_of(t.x);
  for_floating(t.x.dtype, [&](auto type) { run_normalize<decltype(type)>(context, t, l, running(t, eps)); });
}

void batch_norm_backward(const LaunchContext& context, const BatchNormTensors& t, bool training, double eps) {
  const Moments m = training ? Moments{per_channel(t.mean), per_channel(t.invstd), false, eps} : running(t, eps);
  for_floating(t.x.dtype, [&](auto type) { run_backward<decltype(type)>(context, t, m, training); });
}

}  // namespace gpuplan::cuda
