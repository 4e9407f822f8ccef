// Attention of half types on tensor cores, by tiles with a running maximum and sum for each row (Dao,
// "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023, algorithm 1).
#include <cuda_runtime_api.h>

#include "validate/cuda/kernels/attention_fragments.cuh"

namespace gpuplan::cuda {
namespace {

constexpr float kLog2OfE = 1.4426950408889634F, kLogOf2 = 0.6931471805599453F;

// All of it in the 64 KiB of Turing's multiprocessors.
template <int padded>
using Block = FragmentBlock<padded, padded <= 128 ? 64 : 32, 4>;

template <class T, int padded>
constexpr int kSharedBytes =
    static_cast<int>(sizeof(T)) * (Block<padded>::kOwn + Block<padded>::kOthers) * Block<padded>::kPitch +
    static_cast<int>(sizeof(float)) * Block<padded>::kThreads / kWarpThreads* Block<padded>::kWarpFloats
    + kFragmentAlignment;

// Of one query: the largest score so far, times log2(e), and the sum of its exponentials.
struct Running {
  float most = -INFINITY, sum = 0;
};

// Where the query is and the first key of the tile.
struct Place {
  int b, h, i, key;
};

// Scores become those that the exponential base 2 is taken of.
template <class G>
__device__ __forceinline__ float mask_scores(const AttentionCall& a, const Place& at, Quad (&mine)[G::kQuads]) {
  const AttentionShape& s = a.shape;
  const float scale = static_cast<float>(a.scale);
  const bool whole =
      a.mask.data == nullptr && at.key + G::kOthers <= s.keys && (!a.causal || at.key + G::kOthers - 1 <= at.i);
  float highest = -INFINITY;
#pragma unroll
  for (int q = 0; q < G::kQuads; ++q)
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float& score = mine[q].values[k];
      const int j = at.key + G::column(q) + k;
      if (whole) {
        score *= scale * kLog2OfE;
      } else {
        const bool seen = at.i < s.queries && j < s.keys && (!a.causal || j <= at.i);
        score = seen ? a.mask.apply(score * scale, at.b, at.h, at.i, j) * kLog2OfE : -INFINITY;
      }
      highest = fmaxf(highest, score);
    }
  return fmaxf(highest, __shfl_xor_sync(0xFFFFFFFFU, highest, 1));
}

// Scores become probabilities, those that dropout keeps, up to the sum and dropout's factor. Returns what earlier ones
// shrink by.
template <class G>
__device__ __forceinline__ float take_exponentials(const AttentionCall& a, const Place& at, float highest,
                                                   Running& running, Quad (&mine)[G::kQuads]) {
  highest = fmaxf(highest, running.most);
  const float base = highest == -INFINITY ? 0.0F : highest;  // a row that sees nothing yet
  const float shrink = exp2f(running.most - base);
  const std::int64_t row = (std::int64_t{at.b} * a.shape.heads + at.h) * a.shape.queries + at.i;
  float sum = 0;
#pragma unroll
  for (int q = 0; q < G::kQuads; ++q)
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float& p = mine[q].values[k];
      p = exp2f(p - base);
      sum += p;
      if (a.dropping.p != 0.0F && a.dropping.factor(row, a.shape.keys, at.key + G::column(q) + k) == 0.0F) p = 0;
    }
  sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
  running = {highest, running.sum * shrink + sum};
  return shrink;
}

template <class T, int padded>
__device__ __forceinline__ void attend(const AttentionCall& a) {
  using G = Block<padded>;
  T* queries = reinterpret_cast<T*>(fragment_aligned(dynamic_shared()));
  T* tile = queries + G::kOwn * G::kPitch;
  float* scores = reinterpret_cast<float*>(tile + G::kOthers * G::kPitch) + G::warp() * G::kWarpFloats;
  const AttentionShape& s = a.shape;
  const int first = static_cast<int>(blockIdx.x) * G::kOwn;
  Place at{static_cast<int>(blockIdx.y) / s.heads, static_cast<int>(blockIdx.y) % s.heads,
           first + G::warp() * kFragment + G::row(), 0};
  const auto keys = a.key.at(at.b, at.h / s.group, s.keys, s.size);
  const auto values = a.value.at(at.b, at.h / s.group, s.keys, s.value_size);
  load_rows<T, G, G::kOwn>(a.query.at(at.b, at.h, s.queries, s.size), first, queries);

  Running running;
  FragmentSum out[G::kWide];
  clear(out);
  const int end = a.causal && first + G::kOwn < s.keys ? first + G::kOwn : s.keys;
  for (at.key = 0; at.key < end; at.key += G::kOthers) {
    __syncthreads();
    load_rows<T, G, G::kOthers>(keys, at.key, tile);
    __syncthreads();
    multiply_transposed<T, G::kOthers / kFragment, padded, G::kPitch, G::kScorePitch>(
        queries + G::warp() * kFragment * G::kPitch, tile, scores);
    __syncthreads();
    load_rows<T, G, G::kOthers>(values, at.key, tile);
    Quad mine[G::kQuads];
    read_scores<G>(scores, mine);
    const float highest = mask_scores<G>(a, at, mine);
    const float shrink = take_exponentials<G>(a, at, highest, running, mine);
    __syncwarp();
    write_halves<T, G>(mine, scores);
    write_row_number<G>(shrink, scores);
    __syncthreads();
    multiply_by_row<G>(scores, out);
    add_product<T, G::kWide, G::kOthers, G::kHalfPitch, G::kPitch>(reinterpret_cast<const T*>(scores), tile, out);
  }
  __syncwarp();
  write_row_number<G>(running.sum != 0.0F ? a.dropping.scale / running.sum : 0.0F, scores);
  __syncwarp();
  multiply_by_row<G>(scores, out);
  write_rows<T, G>(out, first + G::warp() * kFragment, a.out.at(at.b, at.h, s.queries, s.value_size), scores);
  if (G::lane() % 2 == 0 && at.i < s.queries && a.logsumexp.data != nullptr)
    store<float>(a.logsumexp.data, a.logsumexp.dtype,
                 at.b * a.logsumexp.batch + at.h * a.logsumexp.head + at.i * a.logsumexp.row,
                 running.most * kLogOf2 + logf(running.sum));
}

template <class T, int padded>
__global__ void __launch_bounds__(Block<padded>::kThreads)
    forward_by_fragments(const __grid_constant__ AttentionCall a) {
  if constexpr (kHasFragments<T>) attend<T, padded>(a);
}

template <class T, int padded>
void launch_fragments(const LaunchContext& context, const AttentionCall& call) {
  using G = Block<padded>;
  constexpr int kBytes = kSharedBytes<T, padded>;
  static_assert(kBytes <= 64 << 10);
  const auto kernel = forward_by_fragments<T, padded>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes) != cudaSuccess)
    check_launch("attention's shared memory");
  const dim3 grid(blocks_for(call.shape.queries, G::kOwn),
                  static_cast<unsigned>(call.shape.batch) * static_cast<unsigned>(call.shape.heads));
  launch(kernel, grid, G::kThreads, kBytes, context.stream, call);
  check_launch("attention on tensor cores");
}

}  // namespace

bool attends_by_fragments(const LaunchContext& context, const AttentionCall& call) {
  if (!multiplies_fragments(call.query.dtype, context.compute_capability)) return false;
  for (const Strided* t :
       {&call.key, &call.value, &call.out, &call.grad, &call.grad_query, &call.grad_key, &call.grad_value})
    if (t->data != nullptr && t->dtype != call.query.dtype) return false;
  return true;
}

void attention_by_fragments(const LaunchContext& context, const AttentionCall& call) {
  for_fragments(call,
                [&](auto type, auto size) { launch_fragments<decltype(type), decltype(size)::value>(context, call); });
}

}  // namespace gpuplan::cuda
