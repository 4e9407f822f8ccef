// cuDNN as a library: handles, versions, errors, and the computations of which only the launch is left
// (entry_points/cudnn.inc). Versions and error texts are the installed library's own, which needs no GPU for them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

// Where no cuDNN is loaded, as in unit tests: a version that torch's wheels of 2025 have.
constexpr std::size_t kAssumedVersion = 91002;

std::string& last_error() {
  static thread_local std::string text;
  return text;
}

const char* own_text(int status) {
  switch (status) {
    case kSuccess: return "CUDNN_STATUS_SUCCESS";
    case kBadParam: return "CUDNN_STATUS_BAD_PARAM";
    case kNotFinalized: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case kNotSupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_UNKNOWN_STATUS";
  }
}

}  // namespace

void* installed_symbol(const char* name) { return real_symbol("libcudnn.so.", name); }

Status fail(Status status, const char* why) {
  last_error() = why;
  return status;
}

Status compute(const Handle* handle, const char* name) {
  if (handle == nullptr) return fail(kBadParam, "no handle");
  count_launch(handle->stream, name);
  return kSuccess;
}

}  // namespace gpuplan::shadow::cudnn

namespace {

using gpuplan::shadow::cudnn::fail;
using gpuplan::shadow::cudnn::Handle;
using gpuplan::shadow::cudnn::installed;
using gpuplan::shadow::cudnn::kBadParam;
using gpuplan::shadow::cudnn::kSuccess;

}  // namespace

SHADOW_API std::size_t cudnnGetVersion() {
  static auto* const get = installed<std::size_t()>("cudnnGetVersion");
  return get != nullptr ? get() : gpuplan::shadow::cudnn::kAssumedVersion;
}

SHADOW_API int cudnnGetProperty(int type, int* value) {
  if (value == nullptr || type < 0 || type > 2) return fail(kBadParam, "cudnnGetProperty: not a property");
  const auto version = static_cast<int>(cudnnGetVersion());
  // 9 major digits of four since cuDNN 9, of three before: 91002 is 9.10.2, 8907 is 8.9.7.
  const int major_unit = version >= 90000 ? 10000 : 1000;
  if (type == 0) *value = version / major_unit;
  if (type == 1) *value = version % major_unit / 100;
  if (type == 2) *value = version % 100;
  return kSuccess;
}

SHADOW_API std::size_t cudnnGetCudartVersion() {
  static auto* const get = installed<std::size_t()>("cudnnGetCudartVersion");
  return get != nullptr ? get() : static_cast<std::size_t>(gpuplan::shadow::toolkit_version());
}

SHADOW_API std::size_t cudnnGetMaxDeviceVersion() {
  static auto* const get = installed<std::size_t()>("cudnnGetMaxDeviceVersion");
  return get != nullptr ? get() : 1200;
}

SHADOW_API const char* cudnnGetErrorString(int status) {
  static auto* const get = installed<const char*(int)>("cudnnGetErrorString");
  return get != nullptr ? get(status) : gpuplan::shadow::cudnn::own_text(status);
}

SHADOW_API void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (message == nullptr || size == 0) return;
  std::string& own = gpuplan::shadow::cudnn::last_error();
  static auto* const get = installed<void(char*, std::size_t)>("cudnnGetLastErrorString");
  if (own.empty() && get != nullptr) return get(message, size);
  std::snprintf(message, size, "%s", own.c_str());
  own.clear();
}

SHADOW_API int cudnnQueryRuntimeError(Handle* handle, int* status, int /*mode*/, void* /*tag*/) {
  if (handle == nullptr || status == nullptr) return fail(kBadParam, "cudnnQueryRuntimeError: null");
  *status = kSuccess;
  return kSuccess;
}

SHADOW_API int cudnnCreate(Handle** handle) {
  if (handle == nullptr) return fail(kBadParam, "cudnnCreate: no place for the handle");
  *handle = new Handle();
  return kSuccess;
}

SHADOW_API int cudnnDestroy(Handle* handle) {
  delete handle;
  return kSuccess;
}

SHADOW_API int cudnnSetStream(Handle* handle, const void* stream) {
  if (handle == nullptr) return fail(kBadParam, "cudnnSetStream: no handle");
  handle->stream = stream;
  return kSuccess;
}

SHADOW_API int cudnnGetStream(const Handle* handle, const void** stream) {
  if (handle == nullptr || stream == nullptr) return fail(kBadParam, "cudnnGetStream: null");
  *stream = handle->stream;
  return kSuccess;
}

// Computations: their first argument is the handle, and nothing else of them matters here.
#define SHADOW_CUDNN_COMPUTE(name) \
  SHADOW_API int name(Handle* handle) { return gpuplan::shadow::cudnn::compute(handle, #name); }
#include "validate/shadow/runtime/entry_points/cudnn.inc"
#undef SHADOW_CUDNN_COMPUTE
