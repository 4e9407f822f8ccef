// cuDNN's tensor, filter, activation, dropout and other small descriptors: they hold what they were set to.
#include <algorithm>
#include <cstdint>

#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

/// A cudnnActivationDescriptor_t.
struct Activation {
  int mode = 0;
  int nan_propagation = 0;
  double coefficient = 0;
  double swish_beta = 1;
};

/// A descriptor that nobody reads: what it was set to changes no size.
struct Opaque {};

bool valid(int type, int rank, const int* dimensions) {
  if (type_bytes(type) == 0 || rank < 1 || rank > kMaxDimensions || dimensions == nullptr) return false;
  return std::all_of(dimensions, dimensions + rank, [](int d) { return d >= 1; });
}

bool set_dimensions(Tensor& tensor, int type, int rank, const int* dimensions) {
  if (!valid(type, rank, dimensions)) return false;
  tensor = {.type = type, .rank = rank};
  std::copy_n(dimensions, rank, tensor.dimensions.begin());
  return true;
}

std::size_t span_elements(const Tensor& tensor) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.rank); ++i) {
    last += static_cast<std::size_t>(tensor.dimensions[i] - 1) * static_cast<std::size_t>(tensor.strides[i]);
  }
  return tensor.rank == 0 ? 0 : last + 1;
}

}  // namespace

void pack(Tensor& tensor, int format) {
  std::uint32_t stride = 1;  // wraps for what is larger than cuDNN's own int
  const auto next = [&](int axis) {
    const auto i = static_cast<std::size_t>(axis);
    tensor.strides[i] = static_cast<int>(stride);
    stride *= static_cast<std::uint32_t>(tensor.dimensions[i]);
  };
  const bool channels_last = format == 1 && tensor.rank > 2;
  if (channels_last) next(1);
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    if (!channels_last || axis != 1) next(axis);
  }
}

}  // namespace gpuplan::shadow::cudnn

namespace {

using namespace gpuplan::shadow::cudnn;

}  // namespace

SHADOW_CUDNN_DESCRIPTOR(Tensor, Tensor)
SHADOW_CUDNN_DESCRIPTOR(Filter, Filter)
SHADOW_CUDNN_DESCRIPTOR(Activation, Activation)
SHADOW_CUDNN_DESCRIPTOR(Dropout, Dropout)
SHADOW_CUDNN_DESCRIPTOR(LRN, Opaque)
SHADOW_CUDNN_DESCRIPTOR(OpTensor, Opaque)
SHADOW_CUDNN_DESCRIPTOR(ReduceTensor, Opaque)
SHADOW_CUDNN_DESCRIPTOR(SpatialTransformer, Opaque)

// --- tensors ---------------------------------------------------------------------------------------------------------

SHADOW_API int cudnnSetTensorNdDescriptor(Tensor* tensor, int type, int rank, const int* dimensions,
                                          const int* strides) {
  if (tensor == nullptr || strides == nullptr || !set_dimensions(*tensor, type, rank, dimensions)) {
    return fail(kBadParam, "cudnnSetTensorNdDescriptor: not a tensor");
  }
  std::copy_n(strides, rank, tensor->strides.begin());
  return kSuccess;
}

SHADOW_API int cudnnSetTensorNdDescriptorEx(Tensor* tensor, int format, int type, int rank, const int* dimensions) {
  if (tensor == nullptr || !set_dimensions(*tensor, type, rank, dimensions)) {
    return fail(kBadParam, "cudnnSetTensorNdDescriptorEx: not a tensor");
  }
  pack(*tensor, format);
  return kSuccess;
}

SHADOW_API int cudnnSetTensor4dDescriptor(Tensor* tensor, int format, int type, int n, int c, int h, int w) {
  const int dimensions[] = {n, c, h, w};
  return cudnnSetTensorNdDescriptorEx(tensor, format, type, 4, dimensions);
}

SHADOW_API int cudnnSetTensor4dDescriptorEx(Tensor* tensor, int type, int n, int c, int h, int w, int n_stride,
                                            int c_stride, int h_stride, int w_stride) {
  const int dimensions[] = {n, c, h, w};
  const int strides[] = {n_stride, c_stride, h_stride, w_stride};
  return cudnnSetTensorNdDescriptor(tensor, type, 4, dimensions, strides);
}

SHADOW_API int cudnnGetTensorNdDescriptor(const Tensor* tensor, int wanted, int* type, int* rank, int* dimensions,
                                          int* strides) {
  if (tensor == nullptr) return fail(kBadParam, "cudnnGetTensorNdDescriptor: no tensor");
  const int given = std::clamp(wanted, 0, tensor->rank);
  if (type != nullptr) *type = tensor->type;
  if (rank != nullptr) *rank = tensor->rank;
  if (dimensions != nullptr) std::copy_n(tensor->dimensions.begin(), given, dimensions);
  if (strides != nullptr) std::copy_n(tensor->strides.begin(), given, strides);
  return kSuccess;
}

SHADOW_API int cudnnGetTensor4dDescriptor(const Tensor* tensor, int* type, int* n, int* c, int* h, int* w,
                                          int* n_stride, int* c_stride, int* h_stride, int* w_stride) {
  if (tensor == nullptr || tensor->rank != 4) return fail(kBadParam, "cudnnGetTensor4dDescriptor: not of rank 4");
  if (type != nullptr) *type = tensor->type;
  int* const dimensions[] = {n, c, h, w};
  int* const strides[] = {n_stride, c_stride, h_stride, w_stride};
  for (std::size_t i = 0; i < 4; ++i) {
    if (dimensions[i] != nullptr) *dimensions[i] = tensor->dimensions[i];
    if (strides[i] != nullptr) *strides[i] = tensor->strides[i];
  }
  return kSuccess;
}

SHADOW_API int cudnnGetTensorSizeInBytes(const Tensor* tensor, std::size_t* size) {
  if (tensor == nullptr || size == nullptr) return fail(kBadParam, "cudnnGetTensorSizeInBytes: null");
  *size = span_elements(*tensor) * type_bytes(tensor->type);
  return kSuccess;
}

// --- filters ---------------------------------------------------------------------------------------------------------

SHADOW_API int cudnnSetFilterNdDescriptor(Filter* filter, int type, int format, int rank, const int* dimensions) {
  if (filter == nullptr || !valid(type, rank, dimensions)) {
    return fail(kBadParam, "cudnnSetFilterNdDescriptor: not a filter");
  }
  *filter = {.type = type, .format = format, .rank = rank};
  std::copy_n(dimensions, rank, filter->dimensions.begin());
  return kSuccess;
}

SHADOW_API int cudnnSetFilter4dDescriptor(Filter* filter, int type, int format, int k, int c, int h, int w) {
  const int dimensions[] = {k, c, h, w};
  return cudnnSetFilterNdDescriptor(filter, type, format, 4, dimensions);
}

SHADOW_API int cudnnGetFilterNdDescriptor(const Filter* filter, int wanted, int* type, int* format, int* rank,
                                          int* dimensions) {
  if (filter == nullptr) return fail(kBadParam, "cudnnGetFilterNdDescriptor: no filter");
  if (type != nullptr) *type = filter->type;
  if (format != nullptr) *format = filter->format;
  if (rank != nullptr) *rank = filter->rank;
  if (dimensions != nullptr) std::copy_n(filter->dimensions.begin(), std::clamp(wanted, 0, filter->rank), dimensions);
  return kSuccess;
}

SHADOW_API int cudnnGetFilterSizeInBytes(const Filter* filter, std::size_t* size) {
  if (filter == nullptr || size == nullptr) return fail(kBadParam, "cudnnGetFilterSizeInBytes: null");
  std::size_t elements = filter->rank == 0 ? 0 : 1;
  for (int i = 0; i < filter->rank; ++i) {
    elements *= static_cast<std::size_t>(filter->dimensions[static_cast<std::size_t>(i)]);
  }
  *size = elements * type_bytes(filter->type);
  return kSuccess;
}

// --- others ----------------------------------------------------------------------------------------------------------

SHADOW_API int cudnnSetActivationDescriptor(Activation* activation, int mode, int nan_propagation, double coefficient) {
  if (activation == nullptr) return fail(kBadParam, "cudnnSetActivationDescriptor: no descriptor");
  *activation = {.mode = mode, .nan_propagation = nan_propagation, .coefficient = coefficient};
  return kSuccess;
}

SHADOW_API int cudnnGetActivationDescriptor(const Activation* activation, int* mode, int* nan_propagation,
                                            double* coefficient) {
  if (activation == nullptr) return fail(kBadParam, "cudnnGetActivationDescriptor: no descriptor");
  if (mode != nullptr) *mode = activation->mode;
  if (nan_propagation != nullptr) *nan_propagation = activation->nan_propagation;
  if (coefficient != nullptr) *coefficient = activation->coefficient;
  return kSuccess;
}

SHADOW_API int cudnnSetActivationDescriptorSwishBeta(Activation* activation, double beta) {
  if (activation == nullptr) return fail(kBadParam, "cudnnSetActivationDescriptorSwishBeta: no descriptor");
  activation->swish_beta = beta;
  return kSuccess;
}

SHADOW_API int cudnnSetSpatialTransformerNdDescriptor(Opaque* descriptor, int /*sampler*/, int /*type*/, int /*rank*/,
                                                      const int* /*dimensions*/) {
  return descriptor == nullptr ? fail(kBadParam, "cudnnSetSpatialTransformerNdDescriptor: no descriptor") : kSuccess;
}

SHADOW_API int cudnnSetLRNDescriptor(Opaque* /*d*/, unsigned /*n*/, double /*alpha*/, double /*beta*/, double /*k*/) {
  return kSuccess;
}

SHADOW_API int cudnnSetOpTensorDescriptor(Opaque* /*d*/, int /*op*/, int /*type*/, int /*nan_propagation*/) {
  return kSuccess;
}
