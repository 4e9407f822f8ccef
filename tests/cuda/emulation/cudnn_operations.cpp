// Instead of convolutions.cpp, recurrences.cpp and cudnn_batch_norm.cpp, which call cuDNN: convolutions are the host
// device's, batch norm runs by the kernels, and recurrent layers are refused.
#include <array>
#include <variant>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"
#include "validate/cuda/convolutions.h"
#include "validate/cuda/cudnn_batch_norm.h"
#include "validate/cuda/recurrences.h"

extern "C" {
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "an error"; }
std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
}

namespace gpuplan::cuda {
namespace {

[[noreturn]] void refuse_layers() { throw Error("cuDNN's recurrent layers are not emulated", ErrorKind::environment); }

}  // namespace

Convolutions::Convolutions() = default;

void Convolutions::CudaFree::operator()(void*) const {}  // it has none of its own

void Convolutions::run(const LaunchContext&, const Convolution& what, const ConvolutionTensors& t, ConvolutionRules,
                       Workspace) {
  const Primitive primitive = what;
  std::array<KernelTensor, 2> reads{t.image, t.filter};
  KernelTensor written = t.feature_map;
  if (what.pass == ConvolutionPass::backward_data) {
    reads = {t.feature_map, t.filter};
    written = t.image;
  } else if (what.pass == ConvolutionPass::backward_filter) {
    reads = {t.feature_map, t.image};
    written = t.filter;
  }
  Kernel k;
  k.what = &primitive;
  k.reads = reads;
  k.writes = {&written, 1};
  host::convolution_operations().front().run(k);
}

bool cudnn_takes(BatchNormPass, const BatchNormTensors&) { return false; }
BatchNormSpace cudnn_batch_norm_space(cudnnHandle_t, BatchNormPass, const BatchNormTensors&) { return {}; }
void cudnn_batch_norm(cudnnHandle_t, const LaunchContext&, BatchNormPass, const BatchNormTensors&,
                      const BatchNormNumbers&, Workspace) {
  throw Error("cuDNN's batch norm is not emulated", ErrorKind::environment);
}

Recurrences::Recurrences(cudnnHandle_t) : handle_(nullptr) {}
Recurrences::~Recurrences() = default;
void Recurrences::make_dropout_states(const LaunchContext&, void*, std::int64_t, std::uint64_t) { refuse_layers(); }
std::int64_t Recurrences::workspace_bytes(const Recurrence&, const RecurrentArguments&) { refuse_layers(); }
std::int64_t Recurrences::weight_bytes(const Recurrence&, const RecurrentArguments&) { refuse_layers(); }
void* Recurrences::weight_part(const Recurrence&, const RecurrentArguments&, void*, std::int64_t, WeightPart) {
  refuse_layers();
}
void Recurrences::forward(const LaunchContext&, const Recurrence&, const RecurrentArguments&, const RecurrentTensors&,
                          void*) {
  refuse_layers();
}
void Recurrences::backward_input(const LaunchContext&, const Recurrence&, const RecurrentArguments&,
                                 const RecurrentTensors&, void*) {
  refuse_layers();
}
void Recurrences::backward_weight(const LaunchContext&, const Recurrence&, const RecurrentArguments&,
                                  const RecurrentTensors&, void*) {
  refuse_layers();
}

}  // namespace gpuplan::cuda
