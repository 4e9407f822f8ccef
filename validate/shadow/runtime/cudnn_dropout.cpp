// cuDNN's dropout: its random states and the mask's size.
#include <cstdint>

#include "estimator/operators/cudnn_rnn.h"
#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
std::size_t dropout_states_bytes(const GpuDescription& gpu) {
  return static_cast<std::size_t>(
      cudnn_rnn::dropout_states_bytes(gpu.multi_processor_count, gpu.max_threads_per_multi_processor));
}

}  // namespace gpuplan::shadow::cudnn

namespace {

using namespace gpuplan::shadow::cudnn;

}  // namespace

SHADOW_API int cudnnDropoutGetStatesSize(const Handle* handle, std::size_t* size) {
  if (handle == nullptr || size == nullptr) return fail(kBadParam, "cudnnDropoutGetStatesSize: null");
  *size = dropout_states_bytes(gpuplan::shadow::settings().gpu);
  return kSuccess;
}

SHADOW_API int cudnnSetDropoutDescriptor(Dropout* dropout, const Handle* handle, float probability, void* states,
                                         std::size_t /*states_size*/, unsigned long long seed) {
  if (dropout == nullptr) return fail(kBadParam, "cudnnSetDropoutDescriptor: no descriptor");
  *dropout = {.probability = probability, .states = states, .seed = seed};
  // The states are initialized by a kernel; null states are for a probability of 0.
  return states == nullptr ? kSuccess : compute(handle, "cudnnSetDropoutDescriptor");
}

SHADOW_API int cudnnRestoreDropoutDescriptor(Dropout* dropout, const Handle* /*handle*/, float probability,
                                             void* states, std::size_t /*states_size*/, unsigned long long seed) {
  if (dropout == nullptr) return fail(kBadParam, "cudnnRestoreDropoutDescriptor: no descriptor");
  *dropout = {.probability = probability, .states = states, .seed = seed};
  return kSuccess;
}

SHADOW_API int cudnnGetDropoutDescriptor(const Dropout* dropout, const Handle* /*handle*/, float* probability,
                                         void** states, unsigned long long* seed) {
  if (dropout == nullptr) return fail(kBadParam, "cudnnGetDropoutDescriptor: no descriptor");
  if (probability != nullptr) *probability = dropout->probability;
  if (states != nullptr) *states = dropout->states;
  if (seed != nullptr) *seed = dropout->seed;
  return kSuccess;
}

SHADOW_API int cudnnDropoutGetReserveSpaceSize(const Tensor* tensor, std::size_t* size) {
  if (tensor == nullptr || size == nullptr) return fail(kBadParam, "cudnnDropoutGetReserveSpaceSize: null");
  std::size_t elements = 1;
  for (int i = 0; i < tensor->rank; ++i) {
    elements *= static_cast<std::size_t>(tensor->dimensions[static_cast<std::size_t>(i)]);
  }
  *size = (elements + 31) / 32 * 4;  // a bit an element, in words of 32
  return kSuccess;
}
