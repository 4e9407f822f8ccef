// cuSPARSELt: descriptors in the caller's memory, sizes by the 2:4 format, multiplications as launches.
// https://docs.nvidia.com/cuda/cusparselt/
//
// Its structures are opaque blocks of the caller's, 512 bytes from version 0.8 on and larger before.
#include <cstdint>
#include <cstring>

#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/runtime.h"

namespace {

// cusparseStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 3;

constexpr std::uint64_t kMark = 0x6770'7570'6c61'6e21;  // of a handle that was initialized

struct Handle {
  std::uint64_t mark;
};

struct Matrix {
  std::int64_t rows, columns, ld;
  int value_type, order;
  int batches;
};

// cusparseLtMatmulAlgAttribute_t: CONFIG_ID, CONFIG_MAX_ID, SEARCH_ITERATIONS, SPLIT_K, SPLIT_K_MODE, SPLIT_K_BUFFERS
constexpr int kMaxId = 1, kSearchIterations = 2, kSplitK = 3;
constexpr int kAttributes = 6;

struct Algorithm {
  int attributes[kAttributes];
};

struct Multiplication {
  Matrix a, b, c, d;
};

struct Plan {
  Multiplication multiplication;
};

static_assert(sizeof(Plan) <= 512 && sizeof(Algorithm) <= 512 && sizeof(Handle) <= 512);

bool ready(const Handle* handle) { return handle != nullptr && handle->mark == kMark; }

int describe(const Handle* handle, Matrix* out, const Matrix& matrix) {
  if (!ready(handle)) return kNotInitialized;
  if (out == nullptr || matrix.rows <= 0 || matrix.columns <= 0) return kInvalidValue;
  *out = matrix;
  return kSuccess;
}

/// Half of the values, and for each kept value where it was in its group of four: 2 bits. 4-byte types keep one of two
/// and so 1 bit, taken as 2 as PyTorch does (_cslt_compress).
std::size_t compressed_bytes(const Matrix& matrix) {
  const std::size_t values = static_cast<std::size_t>(matrix.rows * matrix.columns * matrix.batches);
  return values / 2 * gpuplan::shadow::data_type_bytes(matrix.value_type) + values / 8;
}

int answer_compressed(const Handle* handle, const Matrix* matrix, std::size_t* size, std::size_t* buffer) {
  if (!ready(handle)) return kNotInitialized;
  if (matrix == nullptr || size == nullptr || buffer == nullptr) return kInvalidValue;
  gpuplan::shadow::note_workspace("cusparseLtSpMMACompress", "0 bytes");
  *size = compressed_bytes(*matrix);
  *buffer = 0;
  return kSuccess;
}

int compute(const Handle* handle, const void* stream, const char* name) {
  if (!ready(handle)) return kNotInitialized;
  gpuplan::shadow::count_launch(stream, name);
  return kSuccess;
}

int copy_attribute(const Handle* handle, void* destination, const void* source, std::size_t bytes) {
  if (!ready(handle)) return kNotInitialized;
  if (destination == nullptr || source == nullptr || bytes != sizeof(int)) return kInvalidValue;
  std::memcpy(destination, source, bytes);
  return kSuccess;
}

}  // namespace

SHADOW_API int cusparseLtInit(Handle* handle) {
  if (handle == nullptr) return kInvalidValue;
  handle->mark = kMark;
  return kSuccess;
}
SHADOW_API int cusparseLtDestroy(Handle* handle) {
  if (!ready(handle)) return kNotInitialized;
  handle->mark = 0;
  return kSuccess;
}
SHADOW_API int cusparseLtGetProperty(int type, int* value) {
  if (value == nullptr) return kInvalidValue;
  return gpuplan::shadow::library_property("libcusparseLt", "cusparseLtGetProperty", type, value) ? kSuccess
                                                                                                  : kInvalidValue;
}
SHADOW_API int cusparseLtGetVersion(const Handle* handle, int* version) {
  if (!ready(handle)) return kNotInitialized;
  if (version == nullptr) return kInvalidValue;
  int parts[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (const int status = cusparseLtGetProperty(i, &parts[i])) return status;
  }
  *version = parts[0] * 1'000 + parts[1] * 100 + parts[2];
  return kSuccess;
}

// --- descriptions --------------------------------------------------------------------------------------------------

SHADOW_API int cusparseLtDenseDescriptorInit(const Handle* handle, Matrix* out, std::int64_t rows, std::int64_t columns,
                                             std::int64_t ld, std::uint32_t /*alignment*/, int value_type, int order) {
  return describe(handle, out, {rows, columns, ld, value_type, order, 1});
}
SHADOW_API int cusparseLtStructuredDescriptorInit(const Handle* handle, Matrix* out, std::int64_t rows,
                                                  std::int64_t columns, std::int64_t ld, std::uint32_t /*alignment*/,
                                                  int value_type, int order, int /*sparsity*/) {
  return describe(handle, out, {rows, columns, ld, value_type, order, 1});
}
SHADOW_API int cusparseLtMatDescriptorDestroy(const Matrix* matrix) {
  return matrix == nullptr ? kInvalidValue : kSuccess;
}
SHADOW_API int cusparseLtMatDescSetAttribute(const Handle* handle, Matrix* matrix, int attribute, const void* value,
                                             std::size_t bytes) {
  if (matrix == nullptr) return kInvalidValue;
  if (attribute == 0) return copy_attribute(handle, &matrix->batches, value, bytes);  // CUSPARSELT_MAT_NUM_BATCHES
  return ready(handle) ? kSuccess : kNotInitialized;                                  // a stride: no memory hangs on it
}

SHADOW_API int cusparseLtMatmulDescriptorInit(const Handle* handle, Multiplication* out, int, int, const Matrix* a,
                                              const Matrix* b, const Matrix* c, const Matrix* d, int /*compute_type*/) {
  if (!ready(handle)) return kNotInitialized;
  if (out == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) return kInvalidValue;
  *out = {*a, *b, *c, *d};
  return kSuccess;
}
SHADOW_API int cusparseLtMatmulDescSetAttribute(const Handle* handle, const Multiplication* multiplication, int,
                                                const void* value, std::size_t) {
  if (!ready(handle)) return kNotInitialized;
  return multiplication == nullptr || value == nullptr ? kInvalidValue : kSuccess;
}

// --- algorithms and plans ------------------------------------------------------------------------------------------

SHADOW_API int cusparseLtMatmulAlgSelectionInit(const Handle* handle, Algorithm* out,
                                                const Multiplication* multiplication, int /*algorithm*/) {
  if (!ready(handle)) return kNotInitialized;
  if (out == nullptr || multiplication == nullptr) return kInvalidValue;
  *out = {};
  out->attributes[kMaxId] = 1;             // ids below it are valid
  out->attributes[kSearchIterations] = 5;  // the manual's default
  out->attributes[kSplitK] = 1;            // no split
  return kSuccess;
}
SHADOW_API int cusparseLtMatmulAlgSelectionDestroy(const Algorithm* algorithm) {
  return algorithm == nullptr ? kInvalidValue : kSuccess;
}
SHADOW_API int cusparseLtMatmulAlgSetAttribute(const Handle* handle, Algorithm* algorithm, int attribute,
                                               const void* value, std::size_t bytes) {
  if (algorithm == nullptr || attribute < 0 || attribute >= kAttributes) return kInvalidValue;
  return copy_attribute(handle, &algorithm->attributes[attribute], value, bytes);
}
SHADOW_API int cusparseLtMatmulAlgGetAttribute(const Handle* handle, const Algorithm* algorithm, int attribute,
                                               void* value, std::size_t bytes) {
  if (algorithm == nullptr || attribute < 0 || attribute >= kAttributes) return kInvalidValue;
  return copy_attribute(handle, value, &algorithm->attributes[attribute], bytes);
}

SHADOW_API int cusparseLtMatmulPlanInit(const Handle* handle, Plan* plan, const Multiplication* multiplication,
                                        const Algorithm* algorithm) {
  if (!ready(handle)) return kNotInitialized;
  if (plan == nullptr || multiplication == nullptr || algorithm == nullptr) return kInvalidValue;
  plan->multiplication = *multiplication;
  return kSuccess;
}
SHADOW_API int cusparseLtMatmulPlanDestroy(const Plan* plan) { return plan == nullptr ? kInvalidValue : kSuccess; }
SHADOW_API int cusparseLtMatmulGetWorkspace(const Handle* handle, const Plan* plan, std::size_t* bytes) {
  if (!ready(handle)) return kNotInitialized;
  if (plan == nullptr || bytes == nullptr) return kInvalidValue;
  gpuplan::shadow::note_workspace("cusparseLtMatmul", "0 bytes");
  *bytes = 0;
  return kSuccess;
}

// --- computations --------------------------------------------------------------------------------------------------

SHADOW_API int cusparseLtMatmul(const Handle* handle, const Plan* plan, const void*, const void*, const void*,
                                const void*, const void*, void*, void*, const void* const* streams, int count) {
  if (plan == nullptr) return kInvalidValue;
  return compute(handle, streams != nullptr && count > 0 ? streams[0] : nullptr, "cusparseLtMatmul");
}
SHADOW_API int cusparseLtMatmulSearch(const Handle* handle, Plan* plan, const void*, const void*, const void*,
                                      const void*, const void*, void*, void*, const void* const* streams, int count) {
  if (plan == nullptr) return kInvalidValue;
  return compute(handle, streams != nullptr && count > 0 ? streams[0] : nullptr, "cusparseLtMatmulSearch");
}
SHADOW_API int cusparseLtSpMMACompressedSize(const Handle* handle, const Plan* plan, std::size_t* size,
                                             std::size_t* buffer) {
  return answer_compressed(handle, plan == nullptr ? nullptr : &plan->multiplication.a, size, buffer);
}
SHADOW_API int cusparseLtSpMMACompressedSize2(const Handle* handle, const Matrix* matrix, std::size_t* size,
                                              std::size_t* buffer) {
  return answer_compressed(handle, matrix, size, buffer);
}
SHADOW_API int cusparseLtSpMMACompress(const Handle* handle, const Plan*, const void*, void*, void*,
                                       const void* stream) {
  return compute(handle, stream, "cusparseLtSpMMACompress");
}
SHADOW_API int cusparseLtSpMMACompress2(const Handle* handle, const Matrix*, int, int, const void*, void*, void*,
                                        const void* stream) {
  return compute(handle, stream, "cusparseLtSpMMACompress2");
}
SHADOW_API int cusparseLtSpMMAPrune(const Handle* handle, const Multiplication*, const void*, void*, int,
                                    const void* stream) {
  return compute(handle, stream, "cusparseLtSpMMAPrune");
}
SHADOW_API int cusparseLtSpMMAPrune2(const Handle* handle, const Matrix*, int, int, const void*, void*, int,
                                     const void* stream) {
  return compute(handle, stream, "cusparseLtSpMMAPrune2");
}
