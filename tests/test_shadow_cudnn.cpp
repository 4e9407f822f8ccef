// cuDNN without a GPU. Sizes are what cuDNN 9.10.2 and 9.26.0 answered alike (cudnnGetRNNTempSpaceSizes,
// cudnnGetRNNWeightParams, cudnnGetBatchNormalization*ExWorkspaceSize, cudnnGetCTCLossWorkspaceSize,
// cudnnDropoutGetStatesSize), asked on a machine with no GPU, with a GPU's properties where a handle holds them.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/cudnn_batch_norm.h"
#include "validate/shadow/runtime/cudnn_convolution.h"
#include "validate/shadow/runtime/cudnn_device.h"
#include "validate/shadow/runtime/cudnn_rnn_sizes.h"
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
int cudnnConvolutionForward(Handle*);
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

struct RnnAnswer {
  int device;
  Rnn rnn;
  Sequences x;
  std::int64_t weights, inference, training, reserve;
};

Rnn lstm(std::int64_t layers, bool bidirectional = false) {
  return {.bidirectional = bidirectional, .input = 64, .hidden = 128, .projection = 128, .layers = layers};
}

Rnn with(Rnn rnn, Cell cell) {
  rnn.cell = cell;
  return rnn;
}

Rnn dropping(Rnn rnn) {
  rnn.dropout = 0.5F;
  return rnn;
}

Rnn projecting(Rnn rnn) {
  rnn.projection = 32;
  return rnn;
}

Rnn half(Rnn rnn) {
  rnn.type = 2;
  return rnn;
}

Rnn persistent(Rnn rnn) {
  rnn.algorithm = 1;
  return rnn;
}

const Sequences kEven{.batch = 8, .steps = 20, .tokens = 160};
const Sequences kRagged{.batch = 8, .steps = 20, .tokens = 63};

const RnnAnswer kAnswers[] = {
    {900, lstm(1), kEven, 397312, 9134336, 9134336, 409856},
    {900, lstm(2), kEven, 925696, 18071808, 18071808, 901376},
    {800, lstm(2), kEven, 925696, 1294592, 1294592, 901376},
    {860, lstm(2, true), kEven, 2375680, 37028096, 37028096, 1802496},
    {750, with(lstm(2), Cell::gru), kEven, 694272, 17735936, 17735936, 1065216},
    {900, with(lstm(1, true), Cell::gru), kEven, 595968, 18227456, 18227456, 983296},
    {900, with(lstm(1), Cell::tanh), kEven, 99328, 8573184, 8655104, 82176},
    {900, with(lstm(2), Cell::relu), kEven, 231424, 17096960, 17178880, 246016},
    {900, projecting(lstm(2)), kEven, 368640, 17596672, 17596672, 1106176},
    {900, projecting(lstm(2, true)), kEven, 868352, 35684608, 35684608, 2212096},
    {900, dropping(lstm(2)), kEven, 925696, 18153728, 18153728, 903936},
    {900, dropping(lstm(3, true)), kEven, 3956736, 55443712, 55443712, 2806016},
    {900, half(lstm(2)), kEven, 462848, 17424640, 17424640, 450816},
    {900, persistent(lstm(2)), kEven, 925696, 19366144, 19366144, 901376},
    {900, lstm(1), kRagged, 397312, 8935680, 8935680, 161536},
};

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

TEST_CASE("a recurrent layer's spaces are cuDNN's") {
  for (const RnnAnswer& a : kAnswers) {
    CAPTURE(&a - kAnswers);
    const TemporarySpace inference = temporary_space(a.rnn, gpu_of(a.device), a.x, false);
    const TemporarySpace training = temporary_space(a.rnn, gpu_of(a.device), a.x, true);
    CHECK(weight_space_bytes(a.rnn) == a.weights);
    CHECK(inference.workspace == a.inference);
    CHECK(inference.reserve == 0);
    CHECK(training.workspace == a.training);
    CHECK(training.reserve == a.reserve);
  }
}

TEST_CASE("a recurrent layer's weights lie one behind the other, biases last") {
  // nn.LSTM(64, 128, 2): cudnnGetRNNWeightParams.
  const WeightPlace recurrent = weight_place(lstm(2), 1, 7);
  CHECK(recurrent.matrix_offset == 851968);
  CHECK(recurrent.rows == 128);
  CHECK(recurrent.columns == 128);
  CHECK(recurrent.bias_offset == 925184);
  // nn.LSTM(64, 128, 2, proj_size=32): the ninth matrix projects, without a bias.
  const WeightPlace projection = weight_place(projecting(lstm(2)), 1, 8);
  CHECK(projection.matrix_offset == 344064);
  CHECK(projection.rows == 32);
  CHECK(projection.columns == 128);
  CHECK(projection.bias_values == 0);
  // nn.RNN(64, 128, 2, bidirectional=True)
  CHECK(weight_place(with(lstm(2, true), Cell::tanh), 3, 0).matrix_offset == 393216);
  CHECK(weight_place(with(lstm(2, true), Cell::tanh), 3, 0).columns == 256);
  Rnn plain = lstm(2);
  plain.bias = Bias::none;
  CHECK(weight_space_bytes(plain) == 917504);
  CHECK(weight_place(plain, 0, 0).bias_values == 0);
}

TEST_CASE("every weight of a recurrent layer has a place of its own in the weight space") {
  for (const RnnAnswer& a : kAnswers) {
    CAPTURE(&a - kAnswers);
    const auto bytes = static_cast<std::int64_t>(type_bytes(a.rnn.type));
    std::int64_t sum = 0;
    for (std::int64_t layer = 0; layer < a.rnn.layers * a.rnn.directions(); ++layer) {
      for (std::int64_t linear = 0; linear <= 2 * gates(a.rnn.cell); ++linear) {
        const WeightPlace at = weight_place(a.rnn, layer, linear);
        const std::int64_t matrix = at.rows * at.columns * bytes, bias = at.bias_values * bytes;
        CHECK(at.matrix_offset + matrix <= a.weights);
        CHECK(at.bias_offset + bias <= a.weights);
        sum += matrix + bias;
      }
    }
    CHECK(sum == a.weights);
  }
}

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
  CHECK(cudnnConvolutionForward(handle) == kSuccess);
  CHECK(gpuplan_shadow_launches() == before + 2);
  CHECK(cudnnConvolutionForward(nullptr) == kBadParam);
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
