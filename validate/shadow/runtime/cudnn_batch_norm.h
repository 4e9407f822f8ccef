// The scratch memory that cuDNN's batch normalization asks for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/session.h"

namespace gpuplan::shadow::cudnn {

constexpr int kSpatialPersistent = 2;  // cudnnBatchNormMode_t

/// Bytes of workspace that cuDNN 9.10 and 9.26 ask for on such a GPU, forward and backward, for `x` alone
/// (CUDNN_BATCHNORM_OPS_BN). 0 unless x is packed NHWC with channels in fours and the mode persistent. The reserve is
/// always 0.
struct BatchNormWorkspace {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};
BatchNormWorkspace batch_norm_workspace(const GpuDescription& gpu, int mode, const Tensor& x);

}  // namespace gpuplan::shadow::cudnn
