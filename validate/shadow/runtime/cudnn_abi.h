// cuDNN's public types, declared anew with the names and values of NVIDIA's headers (cudnn_graph.h, cudnn_ops.h,
// cudnn_cnn.h, cudnn_adv.h) of cuDNN 9, of which cuDNN 8's are a part. Descriptors are ours: an object that the program
// only passes around.
// https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/overview.html
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {

using Status = int;  // cudnnStatus_t
constexpr Status kSuccess = 0;
constexpr Status kBadParam = 2000;
constexpr Status kNotFinalized = 2004;
constexpr Status kNotSupported = 3000;

/// Notes `why` for cudnnGetLastErrorString() on this thread, and returns `status`.
Status fail(Status status, const char* why);

/// A function of the installed cuDNN, or null. The library is one that the program loads itself.
void* installed_symbol(const char* name);

template <typename F>
F* installed(const char* name) {
  return reinterpret_cast<F*>(installed_symbol(name));
}

/// Bytes of a cudnnDataType_t that older interfaces know: FLOAT 0, DOUBLE 1, HALF 2, INT8 3, INT32 4, UINT8 6,
/// BFLOAT16 9, INT64 10, BOOLEAN 11, FP8 12 and 13. Throws nothing; 0 for any other.
constexpr std::size_t type_bytes(int type) {
  switch (type) {
    case 0: return 4;
    case 1: return 8;
    case 2: return 2;
    case 3: return 1;
    case 4: return 4;
    case 6: return 1;
    case 9: return 2;
    case 10: return 8;
    case 11: return 1;
    case 12: return 1;
    case 13: return 1;
    default: return 0;
  }
}

struct Handle {
  const void* stream = nullptr;
};

constexpr int kMaxDimensions = 8;  // CUDNN_DIM_MAX

/// A cudnnTensorDescriptor_t.
struct Tensor {
  int type = 0;
  int rank = 0;
  std::array<int, kMaxDimensions> dimensions{};
  std::array<int, kMaxDimensions> strides{};  // elements
};

/// A cudnnFilterDescriptor_t.
struct Filter {
  int type = 0;
  int format = 0;  // cudnnTensorFormat_t
  int rank = 0;
  std::array<int, kMaxDimensions> dimensions{};
};

/// A cudnnDropoutDescriptor_t.
struct Dropout {
  float probability = 0;
  void* states = nullptr;
  std::uint64_t seed = 0;
};

/// Makes and destroys the object behind a cudnn*Descriptor_t.
template <typename T>
Status create(T** descriptor) {
  if (descriptor == nullptr) return fail(kBadParam, "no place for the descriptor");
  *descriptor = new T();
  return kSuccess;
}

template <typename T>
Status destroy(T* descriptor) {
  delete descriptor;
  return kSuccess;
}

/// One computation on `handle`'s stream, not done.
Status compute(const Handle* handle, const char* name);

/// Strides of a densely packed tensor: NCHW (format 0) or NHWC (format 1).
void pack(Tensor& tensor, int format);

}  // namespace gpuplan::shadow::cudnn

// cudnnCreate<NAME>Descriptor and cudnnDestroy<NAME>Descriptor for the object `type`, which is a name.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SHADOW_CUDNN_DESCRIPTOR(NAME, type)                                                              \
  SHADOW_API int cudnnCreate##NAME##Descriptor(type** d) { return ::gpuplan::shadow::cudnn::create(d); } \
  SHADOW_API int cudnnDestroy##NAME##Descriptor(type* d) { return ::gpuplan::shadow::cudnn::destroy(d); }
// NOLINTEND(bugprone-macro-parentheses)
