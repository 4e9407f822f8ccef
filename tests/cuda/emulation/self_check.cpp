// Checks of the emulation itself, with kernels whose outcome is written beside them. gpuplan_kernels calls it first.
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "tests/cuda/emulation/cuda_language.h"
#include "validate/cuda/kernels/launch.cuh"

namespace gpuplan::emulation {
namespace {

using cuda::launch;

// out[block] = 0 + 1 + ... + 63 + 64 * block: by shuffles within warps, and shared memory between them.
__global__ void sum_block(int* out) {
  __shared__ int of_warp[2];
  int sum = static_cast<int>(threadIdx.x);
  for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, half);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = of_warp[0] + of_warp[1] + static_cast<int>(blockIdx.x * blockDim.x);
}

// What shared memory holds when a block begins, which the block before has written to.
__global__ void read_before_writing(float* out) {
  __shared__ float memory[32];
  out[blockIdx.x * 32 + threadIdx.x] =
      memory[threadIdx.x] + reinterpret_cast<float*>(cuda::dynamic_shared())[threadIdx.x];
  memory[threadIdx.x] = 1;
  reinterpret_cast<float*>(cuda::dynamic_shared())[threadIdx.x] = 1;
}

// Threads that have ended hold nobody up.
__global__ void leave_early(int* out) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x >= 40) return;
  atomicAdd(&count, 1);
  __syncthreads();
  if (threadIdx.x == 0) *out = count;
}

__global__ void wait_at_two_barriers() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void wait_for_an_ended_lane(int* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_xor_sync(kWholeWarp, 1, 1);
}

__global__ void meet_at_two_places(int* out) {
  if (threadIdx.x % 2 == 0)
    out[threadIdx.x] = __shfl_sync(kWholeWarp, 1, 0);
  else
    out[threadIdx.x] = __shfl_sync(kWholeWarp, 2, 0);
}

// Two halves of a warp apart from each other, and votes.
__global__ void halves(unsigned* out) {
  const unsigned mask = threadIdx.x < 16 ? 0xFFFFU : 0xFFFF0000U;
  const unsigned votes =
      threadIdx.x < 16 ? __ballot_sync(mask, threadIdx.x % 2) : __ballot_sync(mask, threadIdx.x % 4 == 0);
  out[threadIdx.x] = votes + __shfl_down_sync(mask, threadIdx.x, 1, 16);
}

// [16, 16] times its transpose.
__global__ void square(const __half* a, float* out) {
  namespace wmma = nvcuda::wmma;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
  wmma::fill_fragment(sums, 1.0F);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, a, 16);
  wmma::mma_sync(sums, left, right, sums);
  wmma::store_matrix_sync(out, sums, 16, wmma::mem_row_major);
}

void expect(bool holds, const char* what) {
  if (!holds) throw Error(what);
}

void expect_refused(const char* words, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return expect(
        e.message().find(words) != std::string::npos && e.message().find("self_check.cpp") != std::string::npos, words);
  }
  throw Error(words);
}

void check_threads() {
  std::vector<int> sums(3);
  launch(sum_block, 3, 64, 0, nullptr, sums.data());
  expect(sums == std::vector<int>{2016, 2080, 2144}, "sums of blocks");
  int left = 0;
  launch(leave_early, 1, 100, 0, nullptr, &left);
  expect(left == 40, "threads that end early");
  std::vector<unsigned> votes(32);
  launch(halves, 1, 32, 0, nullptr, votes.data());
  for (unsigned i = 0; i < 32; ++i)
    expect(votes[i] == (i < 16 ? 0xAAAAU : 0x11110000U) + (i % 16 == 15 ? i : i + 1), "halves of a warp");
}

void check_memory() {
  std::vector<float> read(64);
  launch(read_before_writing, 2, 32, 128, nullptr, read.data());
  for (const float x : read) expect(std::isnan(x), "shared memory that was never written is NaN");
}

void check_fragments() {
  alignas(32) __half a[256];
  alignas(32) float product[256];
  for (int i = 0; i < 256; ++i) a[i] = __float2half_rn(static_cast<float>(i % 7 - 3));
  launch(square, 1, 32, 0, nullptr, a, product);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 16; ++column) {
      float sum = 1;
      for (int k = 0; k < 16; ++k) sum += __half2float(a[row * 16 + k]) * __half2float(a[column * 16 + k]);
      expect(product[row * 16 + column] == sum, "a product of fragments");
    }
}

void check_refusals() {
  std::vector<int> out(32);
  expect_refused("wait for each other", [] { launch(wait_at_two_barriers, 1, 32, 0, nullptr); });
  expect_refused("wait for each other", [&] { launch(wait_for_an_ended_lane, 1, 32, 0, nullptr, out.data()); });
  expect_refused("lanes of a warp meet", [&] { launch(meet_at_two_places, 1, 32, 0, nullptr, out.data()); });
}

}  // namespace
}  // namespace gpuplan::emulation

extern "C" {
__attribute__((visibility("default"))) int gpuplan_emulation_check(char* why, std::size_t size);

/// 1 where everything is as written, else 0 with what is not in `why`.
int gpuplan_emulation_check(char* why, std::size_t size) {
  try {
    gpuplan::emulation::check_threads();
    gpuplan::emulation::check_memory();
    gpuplan::emulation::check_fragments();
    gpuplan::emulation::check_refusals();
    gpuplan::emulation::check_threads();  // after launches that were given up
    return 1;
  } catch (const gpuplan::Error& e) {
    std::snprintf(why, size, "%s", e.message().c_str());
  }
  return 0;
}
}
