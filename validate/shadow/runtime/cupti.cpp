// CUPTI, which profilers ask for GPU activity (PyTorch's through Kineto): it answers as it does where it finds no GPU,
// so that they go on with what the CPU did. https://docs.nvidia.com/cupti/
//
// NVIDIA's own library, even for its version, looks into the driver and does not survive finding ours.
#include <cstdint>

#include "validate/shadow/runtime/runtime.h"

namespace {

// CUptiResult
constexpr int kSuccess = 0;
constexpr int kInvalidParameter = 1;
constexpr int kNotInitialized = 15;

int refuse() {
  gpuplan::shadow::note_unknown("CUPTI: a profiler asked for GPU activity; there is none to time");
  return kNotInitialized;
}

}  // namespace

#define SHADOW_CUPTI(name) \
  SHADOW_API int name() { return refuse(); }
#include "validate/shadow/runtime/entry_points/cupti.inc"

// JAX does not start where this fails. cupti_version.h: the toolkit's version since CUDA 13 (130001 of 13.0), a count
// before that.
SHADOW_API int cuptiGetVersion(std::uint32_t* version) {
  if (version == nullptr) return kInvalidParameter;
  const int toolkit = gpuplan::shadow::toolkit_version();
  *version = toolkit >= 13'000 ? static_cast<std::uint32_t>(10 * toolkit + 9) : 26;
  return kSuccess;
}

SHADOW_API int cuptiGetResultString(int result, const char** text) {
  if (text == nullptr) return kInvalidParameter;
  *text = result == kSuccess          ? "CUPTI_SUCCESS"
          : result == kNotInitialized ? "CUPTI_ERROR_NOT_INITIALIZED"
                                      : "CUPTI_ERROR_UNKNOWN";
  return kSuccess;
}

SHADOW_API int cuptiGetCallbackName(int /*domain*/, std::uint32_t /*callback*/, const char** name) {
  if (name == nullptr) return kInvalidParameter;
  *name = "unknown";
  return kSuccess;
}

SHADOW_API int cuptiFinalize() { return kSuccess; }
