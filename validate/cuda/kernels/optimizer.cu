#include "validate/cuda/kernels/optimizer.h"

#include "validate/cuda/kernels/block_sum.cuh"
#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 8192;  // elements of a block

static_assert(sizeof(UpdateTensors) + sizeof(UpdateNumbers) < 4096);  // a kernel's arguments before CUDA 12.1

struct Piece {
  int tensor;
  std::int64_t first, last;
};

// Which tensor's which chunk this block has.
__device__ __forceinline__ Piece piece(const UpdateTensors& t) {
  int low = 0, high = t.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (t.first_block[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle;
  }
  const std::int64_t first = (blockIdx.x - t.first_block[low]) * kChunk;
  const std::int64_t end = first + kChunk;
  return {low, first, end < t.elements[low] ? end : t.elements[low]};
}

template <class C>
struct Numbers {
  C learning_rate, momentum, weight_decay, beta1, beta2, alpha, eps, correction1, root_correction2, average_rate;
  bool nesterov, centered, amsgrad, adapted;
};

// torch/optim/*.py: _single_tensor_*.
template <Update kind, class C>
__device__ __forceinline__ C updated(C p, C g, C (&s)[3], const Numbers<C>& n) {
  if (kind == Update::adamw)
    p *= C(1) - n.learning_rate * n.weight_decay;
  else
    g += n.weight_decay * p;
  if (kind == Update::sgd) {
    if (n.momentum != C(0)) {
      s[0] = n.momentum * s[0] + g;
      g = n.nesterov ? g + n.momentum * s[0] : s[0];
    }
    return p - n.learning_rate * g;
  }
  if (kind == Update::adam || kind == Update::adamw) {
    s[0] += (C(1) - n.beta1) * (g - s[0]);
    s[1] = n.beta2 * s[1] + (C(1) - n.beta2) * g * g;
    if (n.amsgrad) s[2] = s[1] > s[2] ? s[1] : s[2];
    const C root = sqrt(n.amsgrad ? s[2] : s[1]) / n.root_correction2 + n.eps;
    return p - n.learning_rate / n.correction1 * (s[0] / root);
  }
  if (kind == Update::rmsprop) {
    s[0] = n.alpha * s[0] + (C(1) - n.alpha) * g * g;
    C average = s[0];
    if (n.centered) {
      s[2] += (C(1) - n.alpha) * (g - s[2]);
      average -= s[2] * s[2];
    }
    const C step = g / (sqrt(average) + n.eps);
    if (n.momentum == C(0)) return p - n.learning_rate * step;
    s[1] = n.momentum * s[1] + step;
    return p - n.learning_rate * s[1];
  }
  if (kind == Update::adadelta) {
    s[0] = n.alpha * s[0] + (C(1) - n.alpha) * g * g;
    const C delta = sqrt(s[1] + n.eps) / sqrt(s[0] + n.eps) * g;
    s[1] = n.alpha * s[1] + (C(1) - n.alpha) * delta * delta;
    return p - n.learning_rate * delta;
  }
  if (kind == Update::nadam || kind == Update::radam || kind == Update::adamax) {
    s[0] += (C(1) - n.beta1) * (g - s[0]);
    if (kind == Update::adamax) {
      const C size = fabs(g) + n.eps;
      s[1] = n.beta2 * s[1] > size ? n.beta2 * s[1] : size;
      return p - n.learning_rate * s[0] / s[1];
    }
    s[1] = n.beta2 * s[1] + (C(1) - n.beta2) * g * g;
    if (kind == Update::radam)
      return p - n.learning_rate * s[0] * (n.adapted ? n.root_correction2 / (sqrt(s[1]) + n.eps) : C(1));
    const C root = sqrt(s[1]) / n.root_correction2 + n.eps;
    return p - n.learning_rate * g / root - n.average_rate * s[0] / root;
  }
  s[0] += g * g;  // adagrad
  return p - n.learning_rate * g / (sqrt(s[0]) + n.eps);
}

template <Update kind, class T>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const __grid_constant__ UpdateTensors t, Numbers<accumulate_t<T>> numbers) {
  using C = accumulate_t<T>;
  const Piece here = piece(t);
  T* parameter = static_cast<T*>(t.parameters[here.tensor]);
  const T* gradient = static_cast<const T*>(t.gradients[here.tensor]);
  T* states[3];
#pragma unroll
  for (int k = 0; k < 3; ++k) states[k] = static_cast<T*>(t.states[k][here.tensor]);
#pragma unroll 4
  for (std::int64_t i = here.first + threadIdx.x; i < here.last; i += kThreads) {
    C s[3] = {};
#pragma unroll
    for (int k = 0; k < 3; ++k)
      if (states[k] != nullptr) s[k] = widen<C>(states[k][i]);
    parameter[i] = narrow<T>(updated<kind>(widen<C>(parameter[i]), widen<C>(gradient[i]), s, numbers));
#pragma unroll
    for (int k = 0; k < 3; ++k)
      if (states[k] != nullptr) states[k][i] = narrow<T>(s[k]);
  }
}

// The sums are doubles, whatever is added up; the factor comes before them.
template <class T>
__global__ void __launch_bounds__(kThreads) square_kernel(const __grid_constant__ UpdateTensors t, double* sums) {
  using C = accumulate_t<T>;
  __shared__ double shared[32];
  const Piece here = piece(t);
  const T* x = static_cast<const T*>(t.gradients[here.tensor]);
  C sum = 0;
#pragma unroll 4
  for (std::int64_t i = here.first + threadIdx.x; i < here.last; i += kThreads) {
    const C v = widen<C>(x[i]);
    sum += v * v;
  }
  const double total = over_block<kThreads>(static_cast<double>(sum), shared, Add{});
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    factor_kernel(double* factor, std::int64_t blocks, double most, double eps) {
  __shared__ double shared[32];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < blocks; i += kThreads) sum += factor[1 + i];
  sum = over_block<kThreads>(sum, shared, Add{});
  const double wanted = most / (sqrt(sum) + eps);
  if (threadIdx.x == 0) *factor = wanted < 1 ? wanted : 1;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(const __grid_constant__ UpdateTensors t, const double* factor) {
  using C = accumulate_t<T>;
  const Piece here = piece(t);
  const C f = static_cast<C>(*factor);
  T* x = static_cast<T*>(t.gradients[here.tensor]);
#pragma unroll 4
  for (std::int64_t i = here.first + threadIdx.x; i < here.last; i += kThreads) x[i] = narrow<T>(widen<C>(x[i]) * f);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    unscale_kernel(const __grid_constant__ UpdateTensors t, const float* scale, float* found_inf) {
  using C = accumulate_t<T>;
  const Piece here = piece(t);
  const C inverse = static_cast<C>(static_cast<float>(1.0 / static_cast<double>(*scale)));
  T* x = static_cast<T*>(t.gradients[here.tensor]);
  bool all_finite = true;
#pragma unroll 4
  for (std::int64_t i = here.first + threadIdx.x; i < here.last; i += kThreads) {
    const C v = widen<C>(x[i]);
    all_finite = all_finite && isfinite(v);
    x[i] = narrow<T>(v * inverse);
  }
  if (!all_finite) *found_inf = 1;
}

// aten/src/ATen/native/cuda/AmpKernels.cu, amp_update_scale_cuda_kernel.
__global__ void scale_update_kernel(float* scale, int* growth_tracker, const float* found_inf, ScaleRule rule) {
  if (*found_inf != 0) {
    *scale *= rule.backoff;
    *growth_tracker = 0;
    return;
  }
  const int successful = *growth_tracker + 1;
  if (successful != rule.interval) {
    *growth_tracker = successful;
    return;
  }
  const float grown = *scale * rule.growth;
  if (isfinite(grown)) *scale = grown;
  *growth_tracker = 0;
}

unsigned number_blocks(UpdateTensors& t) {
  std::uint32_t blocks = 0;
  for (int i = 0; i < t.count; ++i) {
    t.first_block[i] = blocks;
    blocks += blocks_for(t.elements[i], kChunk, INT32_MAX);
  }
  t.first_block[t.count] = blocks;
  return blocks;
}

template <class C>
Numbers<C> in_type(const UpdateNumbers& n) {
  const auto c = [](double v) { return static_cast<C>(v); };
  return {c(n.learning_rate), c(n.momentum),          c(n.weight_decay), c(n.beta1), c(n.beta2), c(n.alpha), c(n.eps),
          c(n.correction1),   c(sqrt(n.correction2)), c(n.average_rate), n.nesterov, n.centered, n.amsgrad,  n.adapted};
}

template <class T>
auto kernel_of(Update kind) {
  switch (kind) {
    case Update::sgd: return update_kernel<Update::sgd, T>;
    case Update::adam: return update_kernel<Update::adam, T>;
    case Update::adamw: return update_kernel<Update::adamw, T>;
    case Update::rmsprop: return update_kernel<Update::rmsprop, T>;
    case Update::adadelta: return update_kernel<Update::adadelta, T>;
    case Update::nadam: return update_kernel<Update::nadam, T>;
    case Update::radam: return update_kernel<Update::radam, T>;
    case Update::adamax: return update_kernel<Update::adamax, T>;
    case Update::adagrad: break;
  }
  return update_kernel<Update::adagrad, T>;
}

}  // namespace

void update(const LaunchContext& context, Update kind, DType dtype, UpdateTensors tensors,
            const UpdateNumbers& numbers) {
  if (tensors.count == 0) return;
  const unsigned blocks = number_blocks(tensors);
  const bool known = for_floating(dtype, [&](auto type) {
    using T = decltype(type);
    launch(kernel_of<T>(kind), blocks, kThreads, 0, context.stream, tensors, in_type<accumulate_t<T>>(numbers));
  });
  if (!known) refuse("an update of integers");
  check_launch("the optimizer's update");
}

std::int64_t norm_blocks(const UpdateTensors& tensors) {
  UpdateTensors t = tensors;
  return number_blocks(t);
}

void add_squares(const LaunchContext& context, DType dtype, UpdateTensors tensors, std::int64_t first_block) {
  const unsigned blocks = number_blocks(tensors);
  if ((1 + first_block + blocks) * std::int64_t{sizeof(double)} > context.partial_bytes)
    refuse("too many gradients for the partial sums of their norm");
  double* sums = static_cast<double*>(context.partials) + 1 + first_block;
  const bool known = for_floating(dtype, [&](auto type) {
    launch(square_kernel<decltype(type)>, blocks, kThreads, 0, context.stream, tensors, sums);
  });
  if (!known) refuse("a norm of integers");
  check_launch("the norm of the gradients");
}

void find_factor(const LaunchContext& context, std::int64_t blocks, double most, double eps) {
  launch(factor_kernel, 1, kThreads, 0, context.stream, static_cast<double*>(context.partials), blocks, most, eps);
  check_launch("the norm of the gradients");
}

void apply_factor(const LaunchContext& context, DType dtype, UpdateTensors tensors) {
  const unsigned blocks = number_blocks(tensors);
  for_floating(dtype, [&](auto type) {
    launch(scale_kernel<decltype(type)>, blocks, kThreads, 0, context.stream, tensors,
           static_cast<const double*>(context.partials));
  });
  check_launch("clipping the gradients");
}

void unscale(const LaunchContext& context, DType dtype, UpdateTensors tensors, const float* scale, float* found_inf) {
  const unsigned blocks = number_blocks(tensors);
  const bool known = for_floating(dtype, [&](auto type) {
    launch(unscale_kernel<decltype(type)>, blocks, kThreads, 0, context.stream, tensors, scale, found_inf);
  });
  if (!known) refuse("gradients of integers");
  check_launch("unscaling the gradients");
}

void update_scale(const LaunchContext& context, float* scale, int* growth_tracker, const float* found_inf,
                  ScaleRule rule) {
  launch(scale_update_kernel, 1, 1, 0, context.stream, scale, growth_tracker, found_inf, rule);
  check_launch("the update of the scale");
}

}  // namespace gpuplan::cuda
