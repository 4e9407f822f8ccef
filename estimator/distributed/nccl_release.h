// Which release of NCCL a release of PyTorch comes with.
#pragma once

#include <string_view>

#include "estimator/spec/run_config.h"

namespace gpuplan {

/// What the wheel of a PyTorch release asks for (nvidia-nccl-cu11, -cu12 or -cu13 among its requirements on PyPI).
struct NcclRelease {
  int minor = 0;          // 21
  std::string_view name;  // "2.21.5"
  /// Connections are made when a collective first needs them, not with the communicator (ncclParamRuntimeConnect,
  /// init.cc since 2.22; it needs cuMem, which a driver of CUDA 12 has).
  bool connects_late() const { return minor >= 22; }
};
NcclRelease nccl_of(PyTorchVersion pytorch);

}  // namespace gpuplan
