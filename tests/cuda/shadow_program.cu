// A CUDA program that runs unchanged on a GPU and under `gpuplan shadow`: allocations, copies, kernels, cuBLASLt,
// cuDNN, streams and events. It checks what holds in both places and prints a line for each; exit 1 where something
// does not.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

int failures = 0;

void check(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "ok  " : "FAIL", what);
  if (!holds) ++failures;
}

void check_cuda(cudaError_t error, const char* what) {
  check(error == cudaSuccess, what);
  if (error != cudaSuccess) std::printf("     %s\n", cudaGetErrorString(error));
}

struct Affine {
  float scale;
  float shift;
};

__global__ void __launch_bounds__(256) transform(const float* x, float* y, int n, Affine f) {
  __shared__ float tile[256];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  tile[threadIdx.x] = i < n ? x[i] : 0.0F;
  __syncthreads();
  if (i < n) y[i] = tile[threadIdx.x] * f.scale + f.shift;
}

void memory() {
  std::size_t free_before = 0, free_after = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free_before, &total), "cudaMemGetInfo");
  void* block = nullptr;
  check_cuda(cudaMalloc(&block, std::size_t{64} << 20), "64 MiB are allocated");
  cudaMemGetInfo(&free_after, &total);
  check(free_before - free_after >= std::size_t{64} << 20, "and charged");
  std::vector<int> numbers(1000), back(1000, -1);
  for (int i = 0; i < 1000; ++i) numbers[static_cast<std::size_t>(i)] = i;
  cudaMemcpy(block, numbers.data(), 4000, cudaMemcpyHostToDevice);
  cudaMemcpy(back.data(), block, 4000, cudaMemcpyDeviceToHost);
  check(back == numbers, "what is copied in is copied out");
  check(cudaMalloc(&block, total) == cudaErrorMemoryAllocation, "more than there is, is refused");
  cudaGetLastError();
}

void kernels() {
  cudaStream_t one, two;
  cudaEvent_t done;
  check_cuda(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), "a stream");
  cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  float *x = nullptr, *y = nullptr;
  constexpr int n = 100000;
  cudaMallocAsync(&x, n * sizeof(float), one);
  cudaMallocAsync(&y, n * sizeof(float), one);
  cudaMemsetAsync(x, 0, n * sizeof(float), one);
  transform<<<(n + 255) / 256, 256, 0, one>>>(x, y, n, Affine{2.0F, 0.5F});
  check_cuda(cudaGetLastError(), "a kernel");
  cudaEventRecord(done, one);
  cudaStreamWaitEvent(two, done, 0);
  transform<<<dim3(1, 2, 3), dim3(32, 4), 512, two>>>(y, x, 7, Affine{1.0F, 0.0F});
  transform<<<1, 2048, 0, two>>>(x, y, n, Affine{});
  check(cudaGetLastError() == cudaErrorInvalidConfiguration, "2,048 threads a block are refused");
  check_cuda(cudaStreamSynchronize(two), "the streams end");
  check_cuda(cudaEventQuery(done), "the event is complete");
  cudaFreeAsync(x, two);
  cudaFreeAsync(y, two);
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, transform), "cudaFuncGetAttributes");
  check(attributes.sharedSizeBytes == 1024 && attributes.maxThreadsPerBlock == 256, "reads the kernel's own figures");
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, transform, 256, 0);
  check(blocks == 8, "2,048 threads a multiprocessor hold 8 blocks of 256");
  check_cuda(cudaDeviceSynchronize(), "the device ends");
}

void cublaslt() {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t layout;
  cublasLtMatmulPreference_t preference;
  check(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS, "a cuBLASLt handle");
  cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 64, 64, 64);
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, operation, layout, layout, layout, layout, preference, 1, &found, &count);
  check(count == 1 && found.state == CUBLAS_STATUS_SUCCESS, "its heuristic answers");
  void* matrix = nullptr;
  cudaMalloc(&matrix, 64 * 64 * sizeof(float));
  const float alpha = 1.0F, beta = 0.0F;
  check(cublasLtMatmul(handle, operation, &alpha, matrix, layout, matrix, layout, &beta, matrix, layout, matrix, layout,
                       &found.algo, nullptr, 0, nullptr) == CUBLAS_STATUS_SUCCESS,
        "a product");
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(operation);
  cublasLtDestroy(handle);
  cudaFree(matrix);
}

void cudnn() {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t tensor;
  cudnnPoolingDescriptor_t pooling;
  check(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS, "a cuDNN handle");
  cudnnCreateTensorDescriptor(&tensor);
  const int sizes[] = {8, 16, 32, 32}, strides[] = {16384, 1024, 32, 1};
  check(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, sizes, strides) == CUDNN_STATUS_SUCCESS,
        "a descriptor");
  int dimensions = 0, got[4], got_strides[4];
  cudnnDataType_t type;
  cudnnGetTensorNdDescriptor(tensor, 4, &type, &dimensions, got, got_strides);
  check(dimensions == 4 && got[1] == 16 && got_strides[0] == 16384, "keeps what it was given");
  cudnnCreatePoolingDescriptor(&pooling);
  cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 1, 1, 0, 0, 1, 1);
  void* data = nullptr;
  cudaMalloc(&data, 8 * 16384 * sizeof(float));
  const float alpha = 1.0F, beta = 0.0F;
  check(cudnnPoolingForward(handle, pooling, &alpha, tensor, data, &beta, tensor, data) == CUDNN_STATUS_SUCCESS,
        "a pooling");
  cudnnDestroyTensorDescriptor(tensor);
  cudnnDestroy(handle);
  cudaFree(data);
}

}  // namespace

int main() {
  memory();
  kernels();
  cublaslt();
  cudnn();
  return failures == 0 ? 0 : 1;
}
