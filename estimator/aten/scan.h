// torch.cumsum (aten/src/ATen/native/cuda/ScanKernels.cpp, ScanUtils.cuh).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// x.cumsum(dim, dtype), without a type of booleans and integers as int64; x of another type is copied to it after the
/// result is there. One row alone is scanned by the whole device, with scratch. Under autocast in fp32. Backward: flip,
/// cumsum, flip.
TensorId cumsum(LayerBuilder& b, TensorId x, int dim, std::optional<DType> dtype = std::nullopt);

}  // namespace gpuplan::aten
