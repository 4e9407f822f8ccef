// The installed cuDNN's graph API: its functions, and the names of what is set and asked through them, with the values
// of NVIDIA's cudnn_graph.h.
#pragma once

#include <cstdint>

#include "validate/shadow/runtime/cudnn_abi.h"

namespace gpuplan::shadow::cudnn {

using Descriptor = void*;  // cudnnBackendDescriptor_t

// cudnnBackendDescriptorType_t
constexpr int kHeuristicsDescriptor = 4;
constexpr int kPlanDescriptor = 5;
constexpr int kDeviceDescriptor = 38;

// cudnnBackendAttributeType_t
constexpr int kTypeHandle = 0;
constexpr int kTypeInt64 = 3;
constexpr int kTypeDescriptor = 15;
constexpr int kTypeChar = 24;

// cudnnBackendAttributeName_t
constexpr int kHeuristicsResults = 202;
constexpr int kHeuristicsDevice = 204;
constexpr int kConfigurationEngine = 300;
constexpr int kConfigurationWorkspace = 303;
constexpr int kConfigurationSharedMemory = 304;
constexpr int kPlanHandle = 400;
constexpr int kPlanConfiguration = 401;
constexpr int kPlanWorkspace = 402;
constexpr int kPlanJson = 405;
constexpr int kPlanDevice = 407;
constexpr int kGraphEngineCount = 802;
constexpr int kEngineIndex = 1301;
constexpr int kEngineDevice = 1307;
constexpr int kDeviceId = 2700;
constexpr int kDeviceHandle = 2701;
constexpr int kDeviceJson = 2702;

struct Installed {
  int (*create)(int, Descriptor*) = installed<int(int, Descriptor*)>("cudnnBackendCreateDescriptor");
  int (*destroy)(Descriptor) = installed<int(Descriptor)>("cudnnBackendDestroyDescriptor");
  int (*finalize)(Descriptor) = installed<int(Descriptor)>("cudnnBackendFinalize");
  int (*set)(Descriptor, int, int, std::int64_t,
             const void*) = installed<int(Descriptor, int, int, std::int64_t, const void*)>("cudnnBackendSetAttribute");
  int (*get)(Descriptor, int, int, std::int64_t, std::int64_t*, void*) =
      installed<int(Descriptor, int, int, std::int64_t, std::int64_t*, void*)>("cudnnBackendGetAttribute");
  bool complete() const { return create && destroy && finalize && set && get; }
};

/// Null functions where no cuDNN is loaded.
inline const Installed& installed_backend() {
  static const Installed functions;
  return functions;
}

}  // namespace gpuplan::shadow::cudnn
