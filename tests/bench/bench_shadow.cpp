// What the shadow runtime costs a program: the calls that a PyTorch operator makes. A launch is to stay below 2 us.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>

#include "validate/shadow/runtime/abi.h"

extern "C" {
gpuplan::shadow::cudaError_t cudaMalloc(void**, std::size_t);
gpuplan::shadow::cudaError_t cudaFree(void*);
gpuplan::shadow::cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, int, void*);
gpuplan::shadow::cudaError_t cudaEventCreateWithFlags(void**, unsigned);
gpuplan::shadow::cudaError_t cudaEventRecord(void*, void*);
gpuplan::shadow::cudaError_t cudaEventQuery(void*);
gpuplan::shadow::cudaError_t cudaStreamCreateWithFlags(void**, unsigned);
gpuplan::shadow::cudaError_t cudaLaunchKernel(const void*, gpuplan::shadow::dim3, gpuplan::shadow::dim3, void**,
                                              std::size_t, void*);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
std::int64_t gpuplan_shadow_launches();
}

namespace {

const char kernel = 0;  // its address stands for the function, as the stub's does in a CUDA program

void* new_stream() {
  void* stream = nullptr;
  cudaStreamCreateWithFlags(&stream, 1);
  return stream;
}

void shadow_launch(benchmark::State& state) {
  __cudaRegisterFunction(nullptr, &kernel, nullptr, "kernel", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  void* const stream = state.range(0) != 0 ? new_stream() : nullptr;
  const std::int64_t before = gpuplan_shadow_launches();
  for (auto _ : state)
    benchmark::DoNotOptimize(cudaLaunchKernel(&kernel, {1024, 1, 1}, {256, 1, 1}, nullptr, 0, stream));
  if (gpuplan_shadow_launches() - before != state.iterations()) state.SkipWithError("launches were refused");
}
BENCHMARK(shadow_launch)->Arg(0)->Arg(1)->ArgName("own_stream");

void shadow_allocation(benchmark::State& state) {
  for (auto _ : state) {
    void* block = nullptr;
    cudaMalloc(&block, std::size_t{20} << 20);
    cudaFree(block);
  }
}
BENCHMARK(shadow_allocation);

void shadow_event(benchmark::State& state) {
  void* event = nullptr;
  cudaEventCreateWithFlags(&event, 2);
  for (auto _ : state) {
    cudaEventRecord(event, nullptr);
    benchmark::DoNotOptimize(cudaEventQuery(event));
  }
}
BENCHMARK(shadow_event);

void shadow_copy_of_a_number(benchmark::State& state) {
  void* block = nullptr;
  cudaMalloc(&block, 512);
  float number = 0;
  for (auto _ : state) cudaMemcpyAsync(&number, block, sizeof number, 2, nullptr);
  cudaFree(block);
}
BENCHMARK(shadow_copy_of_a_number);

}  // namespace
