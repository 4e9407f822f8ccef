// Operands that lie in memory as the result does: 16 bytes a thread and access.
#include <type_traits>
#include <utility>

#include "validate/cuda/kernels/launch.cuh"
#include "validate/cuda/kernels/numbers.cuh"
#include "validate/cuda/kernels/packed.cuh"
#include "validate/cuda/kernels/pointwise.h"
#include "validate/cuda/kernels/pointwise_ops.cuh"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

// Null stands for the number.
template <class T>
struct Source {
  const T* data;
  float number;
};

template <PointwiseOp op, class A, class B, class Out, int n>
__global__ void __launch_bounds__(kThreads)
    dense(Source<A> a, Source<B> b, Out* out, std::int64_t elements, float p, float q) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t packs = elements / n;
  for (std::int64_t i = first; i < packs; i += step) {
    Packed<A, n> x;
    Packed<B, n> y;
    Packed<Out, n> z;
    if (a.data != nullptr) x = reinterpret_cast<const Packed<A, n>*>(a.data)[i];
    if (arity(op) > 1 && b.data != nullptr) y = reinterpret_cast<const Packed<B, n>*>(b.data)[i];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float u = a.data != nullptr ? widen<float>(x.values[k]) : a.number;
      const float v = arity(op) > 1 && b.data != nullptr ? widen<float>(y.values[k]) : b.number;
      z.values[k] = narrow<Out>(apply<float>(op, u, v, 0.0F, p, q));
    }
    reinterpret_cast<Packed<Out, n>*>(out)[i] = z;
  }
  const std::int64_t last = packs * n + first;  // what fills no pack
  if (last >= elements) return;
  const float u = a.data != nullptr ? widen<float>(a.data[last]) : a.number;
  const float v = arity(op) > 1 && b.data != nullptr ? widen<float>(b.data[last]) : b.number;
  out[last] = narrow<Out>(apply<float>(op, u, v, 0.0F, p, q));
}

template <PointwiseOp op, class A, class B, class Out>
bool launch_dense(const LaunchContext& context, const Pointwise& w) {
  constexpr int n = 16 / (sizeof(A) > sizeof(Out) ? sizeof(A) : sizeof(Out));
  const auto source = [](const PointwiseOperand& o, auto type) {
    using T = decltype(type);
    return Source<T>{o.is_number ? nullptr : static_cast<const T*>(o.tensor.data), static_cast<float>(o.number)};
  };
  const Source<A> a = source(w.operands[0], A{});
  const Source<B> b = source(w.operands[1], B{});
  if (!aligned(a.data, n * sizeof(A)) || !aligned(w.out.data, n * sizeof(Out))) return false;
  if (arity(op) > 1 && !aligned(b.data, n * sizeof(B))) return false;
  const std::int64_t elements = elements_of(w.out);
  // Two waves of full multiprocessors: every thread has a few packs, and the tail is short.
  const unsigned blocks = blocks_for(elements, std::int64_t{kThreads} * n, std::int64_t{context.multiprocessors} * 16);
  launch(dense<op, A, B, Out, n>, blocks, kThreads, 0, context.stream, a, b, static_cast<Out*>(w.out.data), elements,
         static_cast<float>(w.parameters[0]), static_cast<float>(w.parameters[1]));
  check_launch("a pointwise kernel");
  return true;
}

using Launcher = bool (*)(const LaunchContext&, const Pointwise&);

// Comparisons write bool, which the strided kernel does, as it does what is only called on small tensors.
constexpr bool has_dense(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::eq:
    case PointwiseOp::ne:
    case PointwiseOp::lt:
    case PointwiseOp::le:
    case PointwiseOp::ge:
    case PointwiseOp::gt:
    case PointwiseOp::bit_and:
    case PointwiseOp::rsub:
    case PointwiseOp::minimum:
    case PointwiseOp::floor_divide:
    case PointwiseOp::log:
    case PointwiseOp::sin:
    case PointwiseOp::cos:
    case PointwiseOp::where: return false;
    default: return true;
  }
}
constexpr bool has_mask(PointwiseOp op) {
  return op == PointwiseOp::masked_fill || op == PointwiseOp::dropout_backward;
}

template <class T, std::size_t op>
constexpr Launcher launcher() {
  constexpr auto o = static_cast<PointwiseOp>(op);
  if constexpr (!has_dense(o)) {
    return nullptr;
  } else {
    using B = std::conditional_t<has_mask(o), std::uint8_t, T>;
    return launch_dense<o, T, B, T>;
  }
}

template <class T, std::size_t... ops>
Launcher find(PointwiseOp op, std::index_sequence<ops...>) {
  static constexpr Launcher table[] = {launcher<T, ops>()...};
  return table[static_cast<std::size_t>(op)];
}

template <class T>
Launcher find(PointwiseOp op) {
  return find<T>(op, std::make_index_sequence<static_cast<std::size_t>(PointwiseOp::count)>{});
}

Launcher find_cast(DType from, DType to) {
  constexpr auto id = PointwiseOp::identity;
  if (from == DType::fp32 && to == DType::fp16) return launch_dense<id, float, float, __half>;
  if (from == DType::fp32 && to == DType::bf16) return launch_dense<id, float, float, __nv_bfloat16>;
  if (from == DType::fp16 && to == DType::fp32) return launch_dense<id, __half, __half, float>;
  if (from == DType::bf16 && to == DType::fp32) return launch_dense<id, __nv_bfloat16, __nv_bfloat16, float>;
  return nullptr;
}

Launcher find(const Pointwise& w) {
  const DType type = w.out.dtype;
  const int operands = arity(w.op);
  for (int i = 0; i < operands; ++i) {
    const PointwiseOperand& o = w.operands[i];
    if (o.is_number) continue;
    const DType wanted = i == 1 && has_mask(w.op) ? DType::boolean : type;
    if (!same_layout(o.tensor, w.out)) return nullptr;
    if (o.tensor.dtype != wanted) return w.op == PointwiseOp::identity ? find_cast(o.tensor.dtype, type) : nullptr;
  }
  switch (type) {
    case DType::fp32: return find<float>(w.op);
    case DType::fp16: return find<__half>(w.op);
    case DType::bf16: return find<__nv_bfloat16>(w.op);
    default: return nullptr;
  }
}

}  // namespace

bool dense_pointwise(const LaunchContext& context, const Pointwise& what) {
  if (!is_dense(what.out)) return false;
  const Launcher launcher = find(what);
  return launcher != nullptr && launcher(context, what);
}

}  // namespace gpuplan::cuda
