// Tensors as cuDNN's descriptors.
#pragma once

#include <cudnn.h>

#include <memory>
#include <type_traits>

#include "validate/executor/kernel_tensor.h"

namespace gpuplan::cuda {

template <auto destroy>
struct DestroyDescriptor {
  template <class T>
  void operator()(T* p) const {
    (void)destroy(p);
  }
};
template <class T, auto destroy>
using CudnnHandle = std::unique_ptr<std::remove_pointer_t<T>, DestroyDescriptor<destroy>>;

using TensorDescriptor = CudnnHandle<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;

/// [N, C, H, W] stored as [N, H, W, C], and not row-major at the same time.
bool channels_last(const KernelTensor& image);

/// Of four dimensions. A dimension of size 1 may have any stride, and cuDNN wants those of a whole layout: `last` says
/// of which. Throws Error.
TensorDescriptor image_descriptor(const KernelTensor& image, bool last);

}  // namespace gpuplan::cuda
