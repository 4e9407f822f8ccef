// The gradients of attention of half types on tensor cores, from the forward pass's logsumexp (Dao, "FlashAttention-2",
// 2023, algorithm 2). Queries and keys have a kernel each, which computes the probabilities anew: no sum depends on the
// order of blocks, and none needs memory beyond the row sums. As there, the scores' gradients are rounded to the stored
// type before they are scaled.
#include <cuda_runtime_api.h>

#include "validate/cuda/kernels/attention_fragments.cuh"

namespace gpuplan::cuda {
namespace {

constexpr float kLog2OfE = 1.4426950408889634F;

// All of it in the 64 KiB of Turing's multiprocessors.
template <int padded>
using Block = FragmentBlock<padded,
                            padded <= 64    ? 64
                            : padded <= 128 ? 32
                                            : 16,
                            padded <= 128 ? 4 : 2>;

// Two tiles of the block's own rows, two of the others, the warps' scores, and two numbers for each of the others.
template <class T, int padded>
constexpr int kSharedBytes =
    static_cast<int>(sizeof(T)) * 2 * (Block<padded>::kOwn + Block<padded>::kOthers) * Block<padded>::kPitch +
    static_cast<int>(sizeof(float)) *
        (Block<padded>::kThreads / kWarpThreads * Block<padded>::kWarpFloats + 2 * Block<padded>::kOthers) +
    kFragmentAlignment;

template <class T, class G>
struct Tiles {
  T *own, *own_second, *others, *others_second;
  float *scores, *logsumexps, *sums;

  __device__ __forceinline__ Tiles() {
    own = reinterpret_cast<T*>(fragment_aligned(dynamic_shared()));
    own_second = own + G::kOwn * G::kPitch;
    others = own_second + G::kOwn * G::kPitch;
    others_second = others + G::kOthers * G::kPitch;
    float* floats = reinterpret_cast<float*>(others_second + G::kOthers * G::kPitch);
    scores = floats + G::warp() * G::kWarpFloats;
    logsumexps = floats + G::kThreads / kWarpThreads * G::kWarpFloats;
    sums = logsumexps + G::kOthers;
  }
  /// The warp's rows of the own tiles.
  __device__ __forceinline__ const T* mine(const T* tile) const { return tile + G::warp() * kFragment * G::kPitch; }
};

// What one query has beside its vectors.
struct Row {
  float logsumexp, sum;
};

__device__ __forceinline__ Row row_at(const AttentionCall& a, int b, int h, int i) {
  if (i >= a.shape.queries) return {-INFINITY, 0};
  const std::int64_t row = (std::int64_t{b} * a.shape.heads + h) * a.shape.queries + i;
  return {load<float>(a.logsumexp.data, a.logsumexp.dtype,
                      b * a.logsumexp.batch + h * a.logsumexp.head + i * a.logsumexp.row),
          static_cast<const float*>(a.row_sums)[row]};
}

// Of query i and key j whose vectors multiply to `product`; negative where dropout drops it.
__device__ __forceinline__ float probability(const AttentionCall& a, int b, int h, int i, int j, float product,
                                             float logsumexp) {
  const AttentionShape& s = a.shape;
  if (i >= s.queries || j >= s.keys || (a.causal && j > i) || logsumexp == -INFINITY) return 0;
  const float score = a.mask.apply(product * static_cast<float>(a.scale), b, h, i, j);
  const float p = exp2f((score - logsumexp) * kLog2OfE);
  if (a.dropping.p == 0.0F) return p;
  const std::int64_t row = (std::int64_t{b} * s.heads + h) * s.queries + i;
  return a.dropping.factor(row, s.keys, j) == 0.0F ? -p : p;
}

// The gradient of the score. `gain`: of the result's gradient and the value.
__device__ __forceinline__ float slope(const AttentionCall& a, float p, float gain, float sum) {
  return p < 0.0F ? p * sum : p * (gain * a.dropping.scale - sum);
}

template <class T, int padded>
__device__ __forceinline__ void differentiate_queries(const AttentionCall& a) {
  using G = Block<padded>;
  const Tiles<T, G> tiles;
  const AttentionShape& s = a.shape;
  const int b = static_cast<int>(blockIdx.y) / s.heads, h = static_cast<int>(blockIdx.y) % s.heads;
  const int first = static_cast<int>(blockIdx.x) * G::kOwn, i = first + G::warp() * kFragment + G::row();
  const auto keys = a.key.at(b, h / s.group, s.keys, s.size);
  const auto values = a.value.at(b, h / s.group, s.keys, s.value_size);
  load_rows<T, G, G::kOwn>(a.query.at(b, h, s.queries, s.size), first, tiles.own);
  load_rows<T, G, G::kOwn>(a.grad.at(b, h, s.queries, s.value_size), first, tiles.own_second);
  const Row row = row_at(a, b, h, i);
  const auto grad_mask = a.grad_mask.at(b, h, s.queries, s.keys);

  FragmentSum sums[G::kWide];
  clear(sums);
  const int end = a.causal && first + G::kOwn < s.keys ? first + G::kOwn : s.keys;
  for (int key = 0; key < end; key += G::kOthers) {
    __syncthreads();
    load_rows<T, G, G::kOthers>(keys, key, tiles.others);
    load_rows<T, G, G::kOthers>(values, key, tiles.others_second);
    __syncthreads();
    Quad products[G::kQuads], gains[G::kQuads];
    multiply_transposed<T, G::kOthers / kFragment, padded, G::kPitch, G::kScorePitch>(tiles.mine(tiles.own),
                                                                                      tiles.others, tiles.scores);
    __syncwarp();
    read_scores<G>(tiles.scores, products);
    __syncwarp();
    multiply_transposed<T, G::kOthers / kFragment, padded, G::kPitch, G::kScorePitch>(
        tiles.mine(tiles.own_second), tiles.others_second, tiles.scores);
    __syncwarp();
    read_scores<G>(tiles.scores, gains);
#pragma unroll
    for (int q = 0; q < G::kQuads; ++q)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int j = key + G::column(q) + k;
        const float p = probability(a, b, h, i, j, products[q].values[k], row.logsumexp);
        gains[q].values[k] = slope(a, p, gains[q].values[k], row.sum);
        if (grad_mask.data != nullptr && i < s.queries && j < s.keys)
          store<float>(grad_mask.data, grad_mask.dtype, i * grad_mask.step + j, gains[q].values[k]);
      }
    __syncwarp();
    write_halves<T, G>(gains, tiles.scores);
    __syncwarp();
    add_product<T, G::kWide, G::kOthers, G::kHalfPitch, G::kPitch>(reinterpret_cast<const T*>(tiles.scores),
                                                                   tiles.others, sums);
  }
  multiply(sums, static_cast<float>(a.scale));
  write_rows<T, G>(sums, first + G::warp() * kFragment, a.grad_query.at(b, h, s.queries, s.size), tiles.scores);
}

// What a kernel that owns keys computes: the sums of both gradients are too many registers for the largest heads.
enum class Of : std::uint8_t { keys, values, both };

// Scores stand with a key to a row: the products are of the key with the query.
template <class T, int padded, Of of>
__device__ __forceinline__ void differentiate_keys(const AttentionCall& a) {
  using G = Block<padded>;
  constexpr bool kKeys = of != Of::values, kValues = of != Of::keys;
  const Tiles<T, G> tiles;
  const AttentionShape& s = a.shape;
  const int groups = s.heads / s.group;
  const int b = static_cast<int>(blockIdx.y) / groups, g = static_cast<int>(blockIdx.y) % groups;
  const int first = static_cast<int>(blockIdx.x) * G::kOwn, mine = first + G::warp() * kFragment;
  load_rows<T, G, G::kOwn>(a.key.at(b, g, s.keys, s.size), first, tiles.own);
  if constexpr (kKeys) load_rows<T, G, G::kOwn>(a.value.at(b, g, s.keys, s.value_size), first, tiles.own_second);

  FragmentSum of_key[kKeys ? G::kWide : 1], of_value[kValues ? G::kWide : 1];
  clear(of_key);
  clear(of_value);
  const int start = a.causal ? first / G::kOthers * G::kOthers : 0;  // earlier queries do not see these keys
  for (int h = g * s.group; h < (g + 1) * s.group; ++h) {
    const auto queries = a.query.at(b, h, s.queries, s.size);
    const auto grads = a.grad.at(b, h, s.queries, s.value_size);
    for (int query = start; query < s.queries; query += G::kOthers) {
      __syncthreads();
      load_rows<T, G, G::kOthers>(queries, query, tiles.others);
      load_rows<T, G, G::kOthers>(grads, query, tiles.others_second);
      for (int i = static_cast<int>(threadIdx.x); i < G::kOthers; i += G::kThreads) {
        const Row row = row_at(a, b, h, query + i);
        tiles.logsumexps[i] = row.logsumexp;
        tiles.sums[i] = row.sum;
      }
      __syncthreads();
      Quad products[G::kQuads];
      multiply_transposed<T, G::kOthers / kFragment, padded, G::kPitch, G::kScorePitch>(tiles.mine(tiles.own),
                                                                                        tiles.others, tiles.scores);
      __syncwarp();
      read_scores<G>(tiles.scores, products);
#pragma unroll
      for (int q = 0; q < G::kQuads; ++q)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int i = G::column(q) + k;
          float& p = products[q].values[k];
          p = probability(a, b, h, query + i, mine + G::row(), p, tiles.logsumexps[i]);
        }
      __syncwarp();
      if constexpr (kValues) {
        Quad kept[G::kQuads];
#pragma unroll
        for (int q = 0; q < G::kQuads; ++q)
#pragma unroll
          for (int k = 0; k < 4; ++k) kept[q].values[k] = products[q].values[k] < 0.0F ? 0.0F : products[q].values[k];
        write_halves<T, G>(kept, tiles.scores);
        __syncwarp();
        add_product<T, G::kWide, G::kOthers, G::kHalfPitch, G::kPitch>(reinterpret_cast<const T*>(tiles.scores),
                                                                       tiles.others_second, of_value);
        __syncwarp();
      }
      if constexpr (kKeys) {
        Quad gains[G::kQuads];
        multiply_transposed<T, G::kOthers / kFragment, padded, G::kPitch, G::kScorePitch>(
            tiles.mine(tiles.own_second), tiles.others_second, tiles.scores);
        __syncwarp();
        read_scores<G>(tiles.scores, gains);
#pragma unroll
        for (int q = 0; q < G::kQuads; ++q)
#pragma unroll
          for (int k = 0; k < 4; ++k)
            gains[q].values[k] = slope(a, products[q].values[k], gains[q].values[k], tiles.sums[G::column(q) + k]);
        __syncwarp();
        write_halves<T, G>(gains, tiles.scores);
        __syncwarp();
        add_product<T, G::kWide, G::kOthers, G::kHalfPitch, G::kPitch>(reinterpret_cast<const T*>(tiles.scores),
                                                                       tiles.others, of_key);
      }
    }
  }
  if constexpr (kKeys) {
    multiply(of_key, static_cast<float>(a.scale));
    write_rows<T, G>(of_key, mine, a.grad_key.at(b, g, s.keys, s.size), tiles.scores);
  }
  if constexpr (kValues) {
    multiply(of_value, a.dropping.scale);
    write_rows<T, G>(of_value, mine, a.grad_value.at(b, g, s.keys, s.value_size), tiles.scores);
  }
}

template <class T, int padded>
__global__ void __launch_bounds__(Block<padded>::kThreads)
    query_gradient_by_fragments(const __grid_constant__ AttentionCall a) {
  if constexpr (kHasFragments<T>) differentiate_queries<T, padded>(a);
}

template <class T, int padded, Of of>
__global__ void __launch_bounds__(Block<padded>::kThreads)
    key_gradients_by_fragments(const __grid_constant__ AttentionCall a) {
  if constexpr (kHasFragments<T>) differentiate_keys<T, padded, of>(a);
}

template <class T, int padded>
void launch_block(const LaunchContext& context, const AttentionCall& call, void (*kernel)(AttentionCall), int rows,
                  int heads) {
  using G = Block<padded>;
  constexpr int kBytes = kSharedBytes<T, padded>;
  static_assert(kBytes <= 64 << 10);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) != cudaSuccess)
    check_launch("attention's shared memory");
  launch(kernel, dim3(blocks_for(rows, G::kOwn), static_cast<unsigned>(heads)), G::kThreads, kBytes, context.stream,
         call);
  check_launch("attention's gradient on tensor cores");
}

template <class T, int padded>
void launch_fragments(const LaunchContext& context, const AttentionCall& call) {
  const AttentionShape& s = call.shape;
  launch_block<T, padded>(context, call, query_gradient_by_fragments<T, padded>, s.queries, s.batch * s.heads);
  const int groups = s.batch * s.heads / s.group;
  if constexpr (padded <= 128) {
    launch_block<T, padded>(context, call, key_gradients_by_fragments<T, padded, Of::both>, s.keys, groups);
  } else {
    launch_block<T, padded>(context, call, key_gradients_by_fragments<T, padded, Of::values>, s.keys, groups);
    launch_block<T, padded>(context, call, key_gradients_by_fragments<T, padded, Of::keys>, s.keys, groups);
  }
}

}  // namespace

void attention_backward_by_fragments(const LaunchContext& context, const AttentionCall& call) {
  for_fragments(call,
                [&](auto type, auto size) { launch_fragments<decltype(type), decltype(size)::value>(context, call); });
}

}  // namespace gpuplan::cuda
