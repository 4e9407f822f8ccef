// The thread's last error, and what errors are called. Texts as the CUDA runtime's documentation gives them.
#include <array>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};

#define ERROR(code, text) \
  { code, #code, text }
constexpr auto kErrors = std::to_array<ErrorText>({
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorFileNotFound, "file not found"),
    ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorNotPermitted, "operation not permitted"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ERROR(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(cudaErrorUnknown, "unknown error"),
});
#undef ERROR

thread_local cudaError_t last_error = cudaSuccess;

const ErrorText* find(int code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

SHADOW_API cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
SHADOW_API cudaError_t cudaPeekAtLastError() { return last_error; }

SHADOW_API const char* cudaGetErrorName(cudaError_t code) {
  const ErrorText* const error = find(code);
  return error != nullptr ? error->name : "unrecognized error code";
}

SHADOW_API const char* cudaGetErrorString(cudaError_t code) {
  const ErrorText* const error = find(code);
  return error != nullptr ? error->text : "unrecognized error code";
}

// The driver's codes are the runtime's for everything that this library answers.
SHADOW_API int cuGetErrorName(int code, const char** name) {
  const ErrorText* const error = find(code);
  *name = error != nullptr ? error->name : nullptr;
  return error != nullptr ? cudaSuccess : cudaErrorInvalidValue;
}

SHADOW_API int cuGetErrorString(int code, const char** text) {
  const ErrorText* const error = find(code);
  *text = error != nullptr ? error->text : nullptr;
  return error != nullptr ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace gpuplan::shadow
