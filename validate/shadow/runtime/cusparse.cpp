// cuSPARSE: handles, descriptors that remember what they describe, and computations as launches
// (entry_points/cusparse.inc). https://docs.nvidia.com/cuda/cusparse/
//
// NVIDIA documents no buffer's size: each is taken as 0 and noted. How many entries a sum or product of sparse matrices
// has depends on values, which do not exist here.
#include <cstdint>

#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"

namespace {

using gpuplan::shadow::int_in;
using gpuplan::shadow::LibraryHandle;
using gpuplan::shadow::pointer_in;
using gpuplan::shadow::Word;

// cusparseStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 3;

constexpr const char* kLibrary = "libcusparse.so.";

int compute(Word handle, const char* name) {
  if (handle == 0) return kNotInitialized;
  gpuplan::shadow::count_launch(pointer_in<LibraryHandle>(handle)->stream, name);
  return kSuccess;
}

template <class T>
int answer_no_buffer(Word handle, T* size, const char* name) {
  if (handle == 0) return kNotInitialized;
  if (size == nullptr) return kInvalidValue;
  gpuplan::shadow::note_workspace(name, "0 bytes");
  *size = 0;
  return kSuccess;
}

/// An int that a computation returns where the pointer mode says; on a device it is what was there.
int compute_int(Word handle, const char* name, int* result, int value) {
  if (const int status = compute(handle, name)) return status;
  if (result == nullptr) return kInvalidValue;
  if (pointer_in<LibraryHandle>(handle)->pointer_mode == 0) *result = value;
  return kSuccess;
}

template <class T>
int create(T** out) {
  if (out == nullptr) return kInvalidValue;
  *out = new T;
  return kSuccess;
}

/// What has no state that anybody asks for: cusparseSpGEMMDescr_t, bsrsv2Info_t, ...
struct Opaque {};

}  // namespace

#define SHADOW_SPARSE(name) \
  SHADOW_API int name(Word handle) { return compute(handle, #name); }
#define SHADOW_BUFFER_OF(name, size, type) \
  SHADOW_API int name(SHADOW_WORDS) { return answer_no_buffer(a1, pointer_in<type>(a##size), #name); }
#define SHADOW_BUFFER(name, size) SHADOW_BUFFER_OF(name, size, std::size_t)

#include "validate/shadow/runtime/entry_points/cusparse.inc"

// --- handles -------------------------------------------------------------------------------------------------------

SHADOW_API int cusparseCreate(LibraryHandle** handle) {
  gpuplan::shadow::check_loaded_libraries();
  return create(handle);
}
SHADOW_API int cusparseDestroy(const LibraryHandle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}
SHADOW_API int cusparseSetStream(LibraryHandle* handle, const void* stream) {
  if (handle == nullptr) return kNotInitialized;
  handle->stream = stream;
  return kSuccess;
}
SHADOW_API int cusparseGetStream(const LibraryHandle* handle, const void** stream) {
  if (handle == nullptr) return kNotInitialized;
  if (stream == nullptr) return kInvalidValue;
  *stream = handle->stream;
  return kSuccess;
}
SHADOW_API int cusparseSetPointerMode(LibraryHandle* handle, int mode) {
  if (handle == nullptr) return kNotInitialized;
  handle->pointer_mode = mode;
  return kSuccess;
}
SHADOW_API int cusparseGetPointerMode(const LibraryHandle* handle, int* mode) {
  if (handle == nullptr) return kNotInitialized;
  if (mode == nullptr) return kInvalidValue;
  *mode = handle->pointer_mode;
  return kSuccess;
}

SHADOW_API int cusparseGetProperty(int type, int* value) {
  if (value == nullptr) return kInvalidValue;
  return gpuplan::shadow::library_property(kLibrary, "cusparseGetProperty", type, value) ? kSuccess : kInvalidValue;
}
SHADOW_API int cusparseGetVersion(const LibraryHandle* /*handle*/, int* version) {
  if (version == nullptr) return kInvalidValue;
  int parts[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (const int status = cusparseGetProperty(i, &parts[i])) return status;
  }
  *version = parts[0] * 1'000 + parts[1] * 100 + parts[2];  // CUSPARSE_VERSION of cusparse.h
  return kSuccess;
}
SHADOW_API const char* cusparseGetErrorName(int status) {
  using Name = const char* (*)(int);
  const auto real = reinterpret_cast<Name>(gpuplan::shadow::real_symbol(kLibrary, "cusparseGetErrorName"));
  return real != nullptr ? real(status) : status == kSuccess ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_UNKNOWN";
}
SHADOW_API const char* cusparseGetErrorString(int status) {
  using Text = const char* (*)(int);
  const auto real = reinterpret_cast<Text>(gpuplan::shadow::real_symbol(kLibrary, "cusparseGetErrorString"));
  return real != nullptr ? real(status) : status == kSuccess ? "success" : "cuSPARSE error";
}

// --- objects without state -----------------------------------------------------------------------------------------

#define SHADOW_OPAQUE(Create, Destroy)                                  \
  SHADOW_API int cusparse##Create(Opaque** out) { return create(out); } \
  SHADOW_API int cusparse##Destroy(const Opaque* object) {              \
    delete object;                                                      \
    return kSuccess;                                                    \
  }
SHADOW_OPAQUE(CreateBsrsv2Info, DestroyBsrsv2Info)
SHADOW_OPAQUE(CreateBsrsm2Info, DestroyBsrsm2Info)
SHADOW_OPAQUE(SpSV_createDescr, SpSV_destroyDescr)
SHADOW_OPAQUE(SpSM_createDescr, SpSM_destroyDescr)
SHADOW_OPAQUE(SpGEMM_createDescr, SpGEMM_destroyDescr)
#undef SHADOW_OPAQUE

// --- computations that answer --------------------------------------------------------------------------------------

// No zero on the diagonal was met.
SHADOW_API int cusparseXbsrsv2_zeroPivot(Word handle, const Opaque* /*info*/, int* position) {
  return compute_int(handle, "cusparseXbsrsv2_zeroPivot", position, -1);
}
SHADOW_API int cusparseXbsrsm2_zeroPivot(Word handle, const Opaque* /*info*/, int* position) {
  return compute_int(handle, "cusparseXbsrsm2_zeroPivot", position, -1);
}

SHADOW_API int cusparseXcsrgeam2Nnz(Word handle, int /*m*/, int /*n*/, const void*, int nnz_a, const int*, const int*,
                                    const void*, int nnz_b, const int*, const int*, const void*, int* /*rows*/,
                                    int* total, const void* /*workspace*/) {
  gpuplan::shadow::note_unknown("cusparseXcsrgeam2Nnz: entries of the sum taken as those of both matrices, the most");
  return compute_int(handle, "cusparseXcsrgeam2Nnz", total, nnz_a + nnz_b);
}

SHADOW_API int cusparseSpGEMM_workEstimation(Word handle, int, int, const void*, const void*, const void*, const void*,
                                             const void*, int, int, const Opaque*, std::size_t* size,
                                             const void* /*buffer*/) {
  gpuplan::shadow::note_unknown("cusparseSpGEMM: entries of the product taken as 0");
  if (const int status = compute(handle, "cusparseSpGEMM_workEstimation")) return status;
  return answer_no_buffer(handle, size, "cusparseSpGEMM_workEstimation");
}
SHADOW_API int cusparseSpGEMM_compute(Word handle, int, int, const void*, const void*, const void*, const void*,
                                      const void*, int, int, const Opaque*, std::size_t* size, const void* /*buffer*/) {
  if (const int status = compute(handle, "cusparseSpGEMM_compute")) return status;
  return answer_no_buffer(handle, size, "cusparseSpGEMM_compute");
}
SHADOW_API int cusparseSpGEMM_copy(Word handle) { return compute(handle, "cusparseSpGEMM_copy"); }
