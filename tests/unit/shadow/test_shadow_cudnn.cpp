// cuDNN without a GPU. Sizes are what cuDNN 9.10.2 and 9.26.0 answered alike
// (cudnnGetBatchNormalization*ExWorkspaceSize, cudnnGetCTCLossWorkspaceSize, cudnnDropoutGetStatesSize), asked on a
// machine with no GPU, with a GPU's properties where a handle holds them.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/cudnn_batch_norm.h"
#include "validate/shadow/runtime/cudnn_convolution.h"
#include "validate/shadow/runtime/cudnn_device.h"
#include "validate/shadow/runtime/runtime.h"

using namespace gpuplan::shadow;
using namespace gpuplan::shadow::cudnn;

extern "C" {
std::size_t cudnnGetVersion();
int cudnnGetProperty(int, int*);
const char* cudnnGetErrorString(int);
void cudnnGetLastErrorString(char*, std::size_t);
int cudnnCreate(Handle**);
int cudnnDestroy(Handle*);
int cudnnSetStream(Handle*, const void*);
int cudnnGetStream(const Handle*, const void**);
int cudnnCreateTensorDescriptor(Tensor**);
int cudnnDestroyTensorDescriptor(Tensor*);
int cudnnSetTensor4dDescriptor(Tensor*, int, int, int, int, int, int);
int cudnnSetTensorNdDescriptor(Tensor*, int, int, const int*, const int*);
int cudnnGetTensorNdDescriptor(const Tensor*, int, int*, int*, int*, int*);
int cudnnGetTensorSizeInBytes(const Tensor*, std::size_t*);
int cudnnDropoutGetStatesSize(const Handle*, std::size_t*);
int cudnnDropoutGetReserveSpaceSize(const Tensor*, std::size_t*);
int cudnnCreateCTCLossDescriptor(void**);
int cudnnDestroyCTCLossDescriptor(void*);
int cudnnSetCTCLossDescriptor_v9(void*, int, int, int, int);
int cudnnGetCTCLossWorkspaceSize(const Handle*, const Tensor*, const Tensor*, const int*, const int*, const int*, int,
                                 void*, std::size_t*);
int cudnnGetCTCLossWorkspaceSize_v8(const Handle*, int, void*, const Tensor*, const Tensor*, std::size_t*);
int cudnnBackendCreateDescriptor(int, void**);
int cudnnBackendDestroyDescriptor(void*);
int cudnnBackendSetAttribute(void*, int, int, std::int64_t, const void*);
int cudnnBackendFinalize(void*);
int cudnnBackendGetAttribute(void*, int, int, std::int64_t, std::int64_t*, void*);
int cudnnBackendExecute(const Handle*, void*, void*);
int cudnnConvolutionForward(const Handle*, const void*, const Tensor*, const void*, const Filter*, const void*,
                            const Convolution*, int, const void*, std::size_t, const void*, const Tensor*, const void*);
int cudnnBatchNormalizationForwardInference(const Handle*, int, const void*, const void*, const Tensor*, const void*,
                                            const Tensor*, const void*, const Tensor*, const void*, const void*,
                                            const void*, const void*, double);
int cudnnDeriveBNTensorDescriptor(Tensor*, const Tensor*, int);
int cudnnSetConvolution2dDescriptor(Convolution*, int, int, int, int, int, int, int, int);
int cudnnSetFilter4dDescriptor(Filter*, int, int, int, int, int, int);
int cudnnGetConvolutionForwardAlgorithmMaxCount(const Handle*, int*);
std::int64_t gpuplan_shadow_launches();
}

namespace {

GpuDescription gpu_of(int device) {
  GpuDescription gpu;
  gpu.major = device / 100;
  gpu.minor = device % 100 / 10;
  return gpu;
}

Tensor nhwc(int type, int n, int c, int h, int w) {
  Tensor x{.type = type, .rank = 4, .dimensions = {n, c, h, w}};
  pack(x, 1);
  return x;
}

struct CudnnTensor {
  CudnnTensor() { cudnnCreateTensorDescriptor(&tensor); }
  ~CudnnTensor() { cudnnDestroyTensorDescriptor(tensor); }
  CudnnTensor(const CudnnTensor&) = delete;
  CudnnTensor& operator=(const CudnnTensor&) = delete;
  Tensor* tensor = nullptr;
};

}  // namespace

TEST_CASE("batch norm takes a workspace in NHWC only") {
  constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;
  const auto workspace = [](int device, const Tensor& x) {
    const BatchNormWorkspace w = batch_norm_workspace(gpu_of(device), kSpatialPersistent, x);
    return std::array{w.forward, w.backward};
  };
  CHECK(workspace(900, nhwc(kFloat, 8, 64, 56, 56)) == std::array<std::int64_t, 2>{203348, 135204});
  CHECK(workspace(750, nhwc(kHalf, 8, 64, 56, 56)) == std::array<std::int64_t, 2>{82088, 135204});
  CHECK(workspace(900, nhwc(kHalf, 256, 2048, 7, 7)) == std::array<std::int64_t, 2>{1305648, 2147488});
  CHECK(workspace(900, nhwc(kFloat, 1, 64, 1, 65)) == std::array<std::int64_t, 2>{2108, 1572});
  CHECK(workspace(750, nhwc(kBfloat16, 8, 64, 56, 56)) == std::array<std::int64_t, 2>{0, 0});
  Tensor nchw = nhwc(kFloat, 8, 64, 56, 56);
  pack(nchw, 0);
  CHECK(workspace(900, nchw) == std::array<std::int64_t, 2>{0, 0});
}

TEST_CASE("batch norm is a launch whose operands are there") {
  Handle* handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == kSuccess);
  const Tensor x = nhwc(2, 4, 64, 8, 8);
  Tensor channels;
  REQUIRE(cudnnDeriveBNTensorDescriptor(&channels, &x, kSpatialPersistent) == kSuccess);
  CHECK(channels.type == 0);  // the statistics of half types are floats
  const char data = 0;
  const auto infer = [&](const Handle* on, const void* bias) {
    return cudnnBatchNormalizationForwardInference(on, 1, nullptr, nullptr, &x, &data, &x, &data, &channels, &data,
                                                   bias, &data, &data, 1e-5);
  };
  const std::int64_t before = gpuplan_shadow_launches();
  CHECK(infer(handle, &data) == kSuccess);
  CHECK(infer(handle, nullptr) == kBadParam);
  CHECK(infer(nullptr, &data) == kBadParam);
  CHECK(gpuplan_shadow_launches() == before + 1);
  cudnnDestroy(handle);
}

TEST_CASE("descriptors hold what they were set to") {
  CudnnTensor t;
  REQUIRE(cudnnSetTensor4dDescriptor(t.tensor, 1, 2, 8, 64, 56, 28) == kSuccess);  // NHWC, half
  int type = -1, rank = 0;
  std::array<int, 4> dimensions{}, strides{};
  REQUIRE(cudnnGetTensorNdDescriptor(t.tensor, 4, &type, &rank, dimensions.data(), strides.data()) == kSuccess);
  CHECK(type == 2);
  CHECK(rank == 4);
  CHECK(dimensions == std::array{8, 64, 56, 28});
  CHECK(strides == std::array{64 * 56 * 28, 1, 64 * 28, 64});
  std::size_t bytes = 0;
  CHECK(cudnnGetTensorSizeInBytes(t.tensor, &bytes) == kSuccess);
  CHECK(bytes == 2U * 8 * 64 * 56 * 28);

  const int bad[] = {8, 0}, one[] = {1, 1};
  CHECK(cudnnSetTensorNdDescriptor(t.tensor, 0, 2, bad, one) == kBadParam);
  std::array<char, 200> why{};
  cudnnGetLastErrorString(why.data(), why.size());
  CHECK(std::string(why.data()).find("cudnnSetTensorNdDescriptor") == 0);
}

TEST_CASE("a convolution without a stride, and a filter without a size, are refused") {
  Convolution convolution;
  CHECK(cudnnSetConvolution2dDescriptor(&convolution, 0, 0, 0, 1, 1, 1, 0, 0) == kBadParam);
  CHECK(cudnnSetConvolution2dDescriptor(&convolution, 0, 0, 1, 1, 1, 1, 0, 0) == kSuccess);
  Filter filter;
  CHECK(cudnnSetFilter4dDescriptor(&filter, 0, 0, 8, 8, 0, 3) == kBadParam);
  CHECK(cudnnSetFilter4dDescriptor(&filter, 0, 0, 8, 8, 3, 3) == kSuccess);
  CHECK(cudnnGetConvolutionForwardAlgorithmMaxCount(nullptr, nullptr) == kBadParam);
}

TEST_CASE("dropout's states are for every second thread of the GPU, its mask a bit an element") {
  const Handle handle;
  std::size_t bytes = 0;
  CHECK(cudnnDropoutGetStatesSize(&handle, &bytes) == kSuccess);
  CHECK(bytes == 6488064);  // an H200's 132 multiprocessors of 2,048 threads
  CudnnTensor t;
  REQUIRE(cudnnSetTensor4dDescriptor(t.tensor, 0, 0, 3, 5, 7, 9) == kSuccess);
  CHECK(cudnnDropoutGetReserveSpaceSize(t.tensor, &bytes) == kSuccess);
  CHECK(bytes == 120);
}

TEST_CASE("CTC loss takes the probabilities and both paths' scores") {
  CudnnTensor t;
  const int dimensions[] = {50, 8, 20}, strides[] = {160, 20, 1};
  REQUIRE(cudnnSetTensorNdDescriptor(t.tensor, 0, 3, dimensions, strides) == kSuccess);
  void* loss = nullptr;
  REQUIRE(cudnnCreateCTCLossDescriptor(&loss) == kSuccess);
  const std::vector<int> lengths(8, 10);
  std::size_t bytes = 0;
  CHECK(cudnnGetCTCLossWorkspaceSize(nullptr, t.tensor, nullptr, nullptr, lengths.data(), nullptr, 0, loss, &bytes) ==
        kSuccess);
  CHECK(bytes == 100320);
  REQUIRE(cudnnSetCTCLossDescriptor_v9(loss, 0, 1, 1, 255) == kSuccess);
  CHECK(cudnnGetCTCLossWorkspaceSize_v8(nullptr, 0, loss, t.tensor, nullptr, &bytes) == kSuccess);
  CHECK(bytes == 1683616);
  cudnnDestroyCTCLossDescriptor(loss);
}

TEST_CASE("cuDNN is told the GPU in its own words") {
  const std::string json = describe(GpuDescription{});
  CHECK(json.find("\"deviceVer\":900,\"multiProcessorCount\":132,") != std::string::npos);
  CHECK(json.find("\"maxBlockSize\":[1024,1024,64],") != std::string::npos);
  CHECK(json.find("\"deviceName\":\"NVIDIA H200\"}") != std::string::npos);
}

TEST_CASE("without a cuDNN to ask, the graph API knows one engine that takes no workspace") {
  void* heuristics = nullptr;
  REQUIRE(cudnnBackendCreateDescriptor(4, &heuristics) == kSuccess);
  CHECK(cudnnBackendFinalize(heuristics) == kSuccess);
  std::int64_t count = 0, workspace = -1;
  CHECK(cudnnBackendGetAttribute(heuristics, 202, 15, 0, &count, nullptr) == kSuccess);
  CHECK(count == 1);
  void* plan = nullptr;
  REQUIRE(cudnnBackendCreateDescriptor(5, &plan) == kSuccess);
  CHECK(cudnnBackendSetAttribute(plan, 401, 15, 1, &heuristics) == kSuccess);
  CHECK(cudnnBackendGetAttribute(plan, 402, 3, 1, &count, &workspace) == kSuccess);
  CHECK(workspace == 0);

  Handle* handle = nullptr;
  REQUIRE(cudnnCreate(&handle) == kSuccess);
  const std::int64_t before = gpuplan_shadow_launches();
  CHECK(cudnnBackendExecute(handle, plan, nullptr) == kSuccess);
  const Tensor x = nhwc(0, 1, 1, 1, 1);
  const Filter w{};
  const Convolution c{};
  const auto convolve = [&](const Handle* on) {
    return cudnnConvolutionForward(on, nullptr, &x, nullptr, &w, nullptr, &c, 0, nullptr, 0, nullptr, &x, nullptr);
  };
  CHECK(convolve(handle) == kSuccess);
  CHECK(gpuplan_shadow_launches() == before + 2);
  CHECK(convolve(nullptr) == kBadParam);
  cudnnDestroy(handle);
  cudnnBackendDestroyDescriptor(plan);
  cudnnBackendDestroyDescriptor(heuristics);
}

TEST_CASE("cuDNN's version is told three ways alike") {
  int major = 0, minor = 0, patch = 0;
  REQUIRE(cudnnGetProperty(0, &major) == kSuccess);
  REQUIRE(cudnnGetProperty(1, &minor) == kSuccess);
  REQUIRE(cudnnGetProperty(2, &patch) == kSuccess);
  CHECK(static_cast<std::size_t>(major * 10000 + minor * 100 + patch) == cudnnGetVersion());
  CHECK(cudnnGetProperty(3, &patch) == kBadParam);
  CHECK(std::string(cudnnGetErrorString(kBadParam)) == "CUDNN_STATUS_BAD_PARAM");
}
