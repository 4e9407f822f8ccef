// torch.cumsum (aten/src/ATen/native/cuda/ScanKernels.cpp, ScanUtils.cuh).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// x.cumsum(dim), of booleans and integers as int64 by a copy of x that is made after the result. One row alone is
/// scanned by the whole device, with scratch. Under autocast in fp32. Backward: flip, cumsum, flip.
TensorId cumsum(LayerBuilder& b, TensorId x, int dim);

}  // namespace gpuplan::aten
