// cuBLAS: handles and their settings, real copies, and every computation as a launch (entry_points/cublas.inc).
// https://docs.nvidia.com/cuda/cublas/
//
// The workspace that a real handle holds from its creation is not modelled; PyTorch sets one of its own.
#include <cstdint>
#include <cstring>

#include "validate/shadow/runtime/copies.h"
#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"

namespace {

using gpuplan::shadow::count_launch;
using gpuplan::shadow::LibraryHandle;
using gpuplan::shadow::Word;

// cublasStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 7;

constexpr const char* kLibrary = "libcublas.so.";

LibraryHandle* handle_in(Word word) { return gpuplan::shadow::pointer_in<LibraryHandle>(word); }

int compute(Word handle, const char* name) {
  if (handle == 0) return kNotInitialized;
  count_launch(handle_in(handle)->stream, name);
  return kSuccess;
}

/// A result of a computation over zeros: `value` in `bytes`. The pointer mode says where it lies; on a device it is
/// what was there, as after any kernel.
int compute_scalar(Word handle, const char* name, Word result, const void* value, std::size_t bytes) {
  if (const int status = compute(handle, name)) return status;
  if (result == 0) return kInvalidValue;
  if (handle_in(handle)->pointer_mode == 0) std::memcpy(gpuplan::shadow::pointer_in<void>(result), value, bytes);
  return kSuccess;
}

int compute_zero(Word handle, const char* name, Word result, std::size_t bytes) {
  static constexpr std::uint64_t kZero[2] = {0, 0};
  return bytes > sizeof(kZero) ? kInvalidValue : compute_scalar(handle, name, result, kZero, bytes);
}

/// The first of equal values; 0 where there is none.
int compute_index(Word handle, const char* name, int n, Word result) {
  const int first = n > 0 ? 1 : 0;
  return compute_scalar(handle, name, result, &first, sizeof(first));
}

int factor(Word handle, const char* name, Word info, std::int64_t count) {
  if (const int status = compute(handle, name)) return status;
  gpuplan::shadow::write_success(gpuplan::shadow::pointer_in<void>(info), count);
  return kSuccess;
}

template <class T>
int get(const LibraryHandle* handle, T* out, T value) {
  if (handle == nullptr) return kNotInitialized;
  if (out == nullptr) return kInvalidValue;
  *out = value;
  return kSuccess;
}

template <class T>
int set(LibraryHandle* handle, T LibraryHandle::*field, T value) {
  if (handle == nullptr) return kNotInitialized;
  handle->*field = value;
  return kSuccess;
}

struct Matrix {
  std::int64_t rows, columns, element_bytes;
};

/// Columns from `source`, `from` elements apart, to `destination`, `to` apart.
int copy_columns(const Matrix& m, const void* source, std::int64_t from, void* destination, std::int64_t to) {
  if (m.rows < 0 || m.columns < 0 || m.element_bytes <= 0 || from <= 0 || to <= 0) return kInvalidValue;
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements * m.element_bytes); };
  const bool fits = gpuplan::shadow::copy_rows(destination, bytes(to), source, bytes(from), bytes(m.rows),
                                               static_cast<std::size_t>(m.columns));
  return fits ? kSuccess : kInvalidValue;
}

/// The same on a stream: a node while that is being captured.
int copy_columns_on(void* stream, const Matrix& m, const void* source, std::int64_t from, void* destination,
                    std::int64_t to) {
  if (gpuplan::shadow::enqueue(static_cast<gpuplan::shadow::Stream*>(stream), 0)) return kSuccess;
  return copy_columns(m, source, from, destination, to);
}

}  // namespace

#define SHADOW_COMPUTE(name) \
  SHADOW_API int name(Word handle) { return compute(handle, #name); }
#define SHADOW_COMPUTE_BOTH(name) SHADOW_COMPUTE(name) SHADOW_COMPUTE(name##_64)
#define SHADOW_SCALAR(name, result, bytes) \
  SHADOW_API int name(SHADOW_WORDS) { return compute_zero(a1, #name, a##result, bytes); }
#define SHADOW_SCALAR_EX(name, result, type)                                                                       \
  SHADOW_API int name(SHADOW_WORDS) {                                                                              \
    return compute_zero(a1, #name, a##result, gpuplan::shadow::data_type_bytes(gpuplan::shadow::int_in(a##type))); \
  }
#define SHADOW_INDEX(name, result) \
  SHADOW_API int name(SHADOW_WORDS) { return compute_index(a1, #name, gpuplan::shadow::int_in(a2), a##result); }
#define SHADOW_FACTOR(name, info, batch) \
  SHADOW_API int name(SHADOW_WORDS) { return factor(a1, #name, a##info, gpuplan::shadow::int_in(a##batch)); }
#define SHADOW_FACTOR_HOST(name, info) \
  SHADOW_API int name(SHADOW_WORDS) { return factor(a1, #name, a##info, 1); }
#define SHADOW_FACTOR_BOTH(name, host, info, batch)                                \
  SHADOW_API int name(SHADOW_WORDS) {                                              \
    gpuplan::shadow::write_success(gpuplan::shadow::pointer_in<void>(a##host), 1); \
    return factor(a1, #name, a##info, gpuplan::shadow::int_in(a##batch));          \
  }

#include "validate/shadow/runtime/entry_points/cublas.inc"

// --- handles -------------------------------------------------------------------------------------------------------

SHADOW_API int cublasCreate_v2(LibraryHandle** handle) {
  gpuplan::shadow::check_loaded_libraries();
  if (handle == nullptr) return kInvalidValue;
  *handle = new LibraryHandle;
  return kSuccess;
}

SHADOW_API int cublasDestroy_v2(LibraryHandle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}

SHADOW_API int cublasSetStream_v2(LibraryHandle* handle, const void* stream) {
  return set(handle, &LibraryHandle::stream, stream);
}
SHADOW_API int cublasGetStream_v2(const LibraryHandle* handle, const void** stream) {
  return get(handle, stream, handle == nullptr ? nullptr : handle->stream);
}

SHADOW_API int cublasSetWorkspace_v2(const LibraryHandle* handle, const void* workspace, std::size_t /*bytes*/) {
  if (handle == nullptr) return kNotInitialized;
  // "The workspace pointer must be aligned to at least 256 bytes, otherwise CUBLAS_STATUS_INVALID_VALUE."
  return reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0 ? kSuccess : kInvalidValue;
}

#define SHADOW_SETTING(Name, field)                                         \
  SHADOW_API int cublasSet##Name(LibraryHandle* handle, int value) {        \
    return set(handle, &LibraryHandle::field, value);                       \
  }                                                                         \
  SHADOW_API int cublasGet##Name(const LibraryHandle* handle, int* value) { \
    return get(handle, value, handle == nullptr ? 0 : handle->field);       \
  }
SHADOW_SETTING(PointerMode_v2, pointer_mode)
SHADOW_SETTING(AtomicsMode, atomics_mode)
SHADOW_SETTING(MathMode, math_mode)
SHADOW_SETTING(SmCountTarget, sm_count_target)
#undef SHADOW_SETTING

// --- versions and texts --------------------------------------------------------------------------------------------

SHADOW_API int cublasGetProperty(int type, int* value) {
  if (value == nullptr) return kInvalidValue;
  return gpuplan::shadow::library_property(kLibrary, "cublasGetProperty", type, value) ? kSuccess : kInvalidValue;
}

// NVIDIA's own needs no handle for this, and JAX gives none.
SHADOW_API int cublasGetVersion_v2(const LibraryHandle* /*handle*/, int* version) {
  if (version == nullptr) return kInvalidValue;
  int parts[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (const int status = cublasGetProperty(i, &parts[i])) return status;
  }
  *version = parts[0] * 10'000 + parts[1] * 100 + parts[2];  // CUBLAS_VERSION of cublas_api.h
  return kSuccess;
}

SHADOW_API std::size_t cublasGetCudartVersion() { return static_cast<std::size_t>(gpuplan::shadow::toolkit_version()); }

SHADOW_API const char* cublasGetStatusName(int status) {
  using Name = const char* (*)(int);
  const auto real = reinterpret_cast<Name>(gpuplan::shadow::real_symbol(kLibrary, "cublasGetStatusName"));
  return real != nullptr ? real(status) : status == kSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_UNKNOWN";
}

SHADOW_API const char* cublasGetStatusString(int status) {
  using Text = const char* (*)(int);
  const auto real = reinterpret_cast<Text>(gpuplan::shadow::real_symbol(kLibrary, "cublasGetStatusString"));
  return real != nullptr ? real(status) : status == kSuccess ? "success" : "cuBLAS error";
}

SHADOW_API int cublasLoggerConfigure(int, int, int, const char*) { return kSuccess; }
SHADOW_API int cublasSetLoggerCallback(const void*) { return kSuccess; }

// --- copies --------------------------------------------------------------------------------------------------------

SHADOW_API int cublasSetMatrix(int rows, int columns, int bytes, const void* a, int lda, void* b, int ldb) {
  return copy_columns({rows, columns, bytes}, a, lda, b, ldb);
}
SHADOW_API int cublasGetMatrix(int rows, int columns, int bytes, const void* a, int lda, void* b, int ldb) {
  return copy_columns({rows, columns, bytes}, a, lda, b, ldb);
}
SHADOW_API int cublasSetMatrixAsync(int rows, int columns, int bytes, const void* a, int lda, void* b, int ldb,
                                    void* stream) {
  return copy_columns_on(stream, {rows, columns, bytes}, a, lda, b, ldb);
}
SHADOW_API int cublasGetMatrixAsync(int rows, int columns, int bytes, const void* a, int lda, void* b, int ldb,
                                    void* stream) {
  return copy_columns_on(stream, {rows, columns, bytes}, a, lda, b, ldb);
}
// A vector is a matrix of one row, whose columns are the elements.
SHADOW_API int cublasSetVector(int n, int bytes, const void* x, int incx, void* y, int incy) {
  return copy_columns({1, n, bytes}, x, incx, y, incy);
}
SHADOW_API int cublasGetVector(int n, int bytes, const void* x, int incx, void* y, int incy) {
  return copy_columns({1, n, bytes}, x, incx, y, incy);
}
SHADOW_API int cublasSetVectorAsync(int n, int bytes, const void* x, int incx, void* y, int incy, void* stream) {
  return copy_columns_on(stream, {1, n, bytes}, x, incx, y, incy);
}
SHADOW_API int cublasGetVectorAsync(int n, int bytes, const void* x, int incx, void* y, int incy, void* stream) {
  return copy_columns_on(stream, {1, n, bytes}, x, incx, y, incy);
}
