// Types by the names that cuDNN has for them.
#pragma once

#include <cudnn.h>

#include "estimator/base/dtype.h"

namespace gpuplan::cuda {

inline cudnnDataType_t data_type(DType t) {
  switch (t) {
    case DType::fp64: return CUDNN_DATA_DOUBLE;
    case DType::fp16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

}  // namespace gpuplan::cuda
