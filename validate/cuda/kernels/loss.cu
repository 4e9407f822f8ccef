#include "validate/cuda/kernels/loss.h"

#include "validate/cuda/kernels/block_sum.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/offsets.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 1024, kThreadsBackward = 256;

template <class C>
struct Partial {
  C sum, count;
};

struct Targets {
  const std::int64_t* data;
  std::int64_t count, ignored;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    forward(const T* x, std::int64_t classes, std::int64_t class_step, Targets targets,
            Offsets<std::uint64_t, 2> offsets, Partial<accumulate_t<T>>* partial) {
  using C = accumulate_t<T>;
  __shared__ C shared[32];
  C sum = 0, count = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < targets.count; i += step) {
    std::int64_t at[2];
    offsets(static_cast<std::uint64_t>(i), at);
    const std::int64_t target = targets.data[at[1]];
    if (target == targets.ignored || target < 0 || target >= classes) continue;
    sum -= widen<C>(x[at[0] + target * class_step]);
    count += C(1);
  }
  sum = over_block<kThreads>(sum, shared, Add{});
  count = over_block<kThreads>(count, shared, Add{});
  if (threadIdx.x == 0) partial[blockIdx.x] = {sum, count};
}

template <class T>
__global__ void finish(const Partial<accumulate_t<T>>* partial, int blocks, T* loss, T* total_weight) {
  using C = accumulate_t<T>;
  C sum = 0, count = 0;
  for (int i = 0; i < blocks; ++i) sum += partial[i].sum, count += partial[i].count;
  *loss = narrow<T>(sum / count);
  *total_weight = narrow<T>(count);
}

template <class T>
__global__ void __launch_bounds__(kThreadsBackward)
    backward(const T* grad, const T* total_weight, std::int64_t classes, std::int64_t class_step, Targets targets,
             Offsets<std::uint64_t, 2> offsets, T* dx) {
  using C = accumulate_t<T>;
  const C each = -widen<C>(*grad) / widen<C>(*total_weight);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreadsBackward;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreadsBackward + threadIdx.x; i < targets.count; i += step) {
    std::int64_t at[2];
    offsets(static_cast<std::uint64_t>(i), at);
    const std::int64_t target = targets.data[at[1]];
    if (target != targets.ignored && target >= 0 && target < classes) dx[at[0] + target * class_step] = narrow<T>(each);
  }
}

struct Geometry {
  Walked walk;  // over the targets: offsets in x and in target
  std::int64_t classes, class_step;
};

Geometry geometry(const KernelTensor& x, const KernelTensor& target) {
  if (target.dtype != DType::int64) refuse("targets that are not int64");
  std::int64_t steps[KernelTensor::kMaxRank] = {};
  const int classes = x.rank == 1 ? 0 : 1;
  for (int i = 0, k = 0; i < x.rank; ++i)
    if (i != classes) steps[k++] = x.strides[i];
  const std::int64_t* strides[] = {steps, target.strides};
  return {walked(target.rank, target.sizes, strides, 2), x.sizes[classes], x.strides[classes]};
}

}  // namespace

void nll_loss(const LaunchContext& context, const KernelTensor& log_p, const KernelTensor& target,
              const KernelTensor& loss, const KernelTensor& total_weight, std::int64_t ignored) {
  const Geometry g = geometry(log_p, target);
  const unsigned blocks = blocks_for(g.walk.elements, kThreads, context.multiprocessors);
  const bool known = for_floating(log_p.dtype, [&](auto type) {
    using T = decltype(type);
    auto* partial = static_cast<Partial<accumulate_t<T>>*>(context.partials);
    const Targets targets{static_cast<const std::int64_t*>(target.data), g.walk.elements, ignored};
    launch(forward<T>, blocks, kThreads, 0, context.stream, static_cast<const T*>(log_p.data), g.classes, g.class_step,
           targets, Offsets<std::uint64_t, 2>(g.walk), partial);
    check_launch("the loss");
    launch(finish<T>, 1, 1, 0, context.stream, partial, static_cast<int>(blocks), static_cast<T*>(loss.data),
           static_cast<T*>(total_weight.data));
  });
  if (!known) refuse("a loss of integers");
  check_launch("the loss");
}

void nll_loss_backward(const LaunchContext& context, const KernelTensor& grad, const KernelTensor& target,
                       const KernelTensor& total_weight, const KernelTensor& dx, std::int64_t ignored) {
  const Geometry g = geometry(dx, target);
  const unsigned blocks = blocks_for(g.walk.elements, kThreadsBackward);
  const bool known = for_floating(dx.dtype, [&](auto type) {
    using T = decltype(type);
    const Targets targets{static_cast<const std::int64_t*>(target.data), g.walk.elements, ignored};
    launch(backward<T>, blocks, kThreadsBackward, 0, context.stream, static_cast<const T*>(grad.data),
           static_cast<const T*>(total_weight.data), g.classes, g.class_step, targets,
           Offsets<std::uint64_t, 2>(g.walk), static_cast<T*>(dx.data));
  });
  if (!known) refuse("a loss of integers");
  check_launch("the loss's gradient");
}

}  // namespace gpuplan::cuda
