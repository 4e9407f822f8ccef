#include "validate/cuda/cudnn_tensors.h"

#include <cstdint>

#include "validate/cuda/check.h"
#include "validate/cuda/cudnn_types.h"
#include "validate/cuda/kernels/strided.h"

namespace gpuplan::cuda {

bool channels_last(const KernelTensor& t) {
  if (t.rank != 4) return false;
  std::int64_t step = 1;
  for (const int i : {1, 3, 2, 0}) {
    if (t.sizes[i] != 1 && t.strides[i] != step) return false;
    step *= t.sizes[i];
  }
  return !is_row_major(t);
}

TensorDescriptor image_descriptor(const KernelTensor& t, bool last) {
  cudnnTensorDescriptor_t made = nullptr;
  check(cudnnCreateTensorDescriptor(&made), "cudnnCreateTensorDescriptor");
  TensorDescriptor descriptor(made);
  int sizes[4], strides[4];
  std::int64_t whole[4] = {t.sizes[1] * t.sizes[2] * t.sizes[3], t.sizes[2] * t.sizes[3], t.sizes[3], 1};
  if (last) whole[1] = 1, whole[3] = t.sizes[1], whole[2] = t.sizes[3] * t.sizes[1];
  for (int i = 0; i < 4; ++i) {
    sizes[i] = static_cast<int>(t.sizes[i]);
    strides[i] = static_cast<int>(t.sizes[i] == 1 ? whole[i] : t.strides[i]);
  }
  check(cudnnSetTensorNdDescriptor(made, data_type(t.dtype), 4, sizes, strides), "cudnnSetTensorNdDescriptor");
  return descriptor;
}

}  // namespace gpuplan::cuda
