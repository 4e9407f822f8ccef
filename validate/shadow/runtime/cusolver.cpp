// cuSOLVER's dense library: handles, parameters, and factorizations as launches that succeed
// (entry_points/cusolver.inc). https://docs.nvidia.com/cuda/cusolver/ Workspace sizes are in cusolver_workspaces.cpp.
#include <cstdint>

#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"

namespace {

using gpuplan::shadow::int_in;
using gpuplan::shadow::LibraryHandle;
using gpuplan::shadow::pointer_in;
using gpuplan::shadow::Word;

// cusolverStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 3;

/// Algorithm parameters: cusolverDnParams_t, syevjInfo_t and gesvdjInfo_t.
struct Parameters {
  double tolerance = 0;
  int max_sweeps = 100;
  int sort = 1;
};

int solve(Word handle, const char* name, Word info, std::int64_t matrices) {
  if (handle == 0) return kNotInitialized;
  gpuplan::shadow::count_launch(pointer_in<LibraryHandle>(handle)->stream, name);
  gpuplan::shadow::write_success(pointer_in<void>(info), matrices);
  return kSuccess;
}

template <class T>
int create(T** out) {
  if (out == nullptr) return kInvalidValue;
  *out = new T;
  return kSuccess;
}

template <class Object, class T>
int set(Object* object, T Object::*field, T value) {
  if (object == nullptr) return kNotInitialized;
  object->*field = value;
  return kSuccess;
}

template <class Object, class T>
int get(const Object* object, T Object::*field, T* value) {
  if (object == nullptr) return kNotInitialized;
  if (value == nullptr) return kInvalidValue;
  *value = object->*field;
  return kSuccess;
}

/// What an iteration would have reported after it ran: none was needed for zeros.
template <class T>
int answer_zero(const LibraryHandle* handle, const Parameters* parameters, T* value) {
  if (handle == nullptr) return kNotInitialized;
  if (parameters == nullptr || value == nullptr) return kInvalidValue;
  *value = 0;
  return kSuccess;
}

}  // namespace

#define SHADOW_SOLVE(name, info) \
  SHADOW_API int name(SHADOW_WORDS) { return solve(a1, #name, a##info, 1); }
#define SHADOW_SOLVE_MANY(name, info, count) \
  SHADOW_API int name(SHADOW_WORDS) { return solve(a1, #name, a##info, int_in(a##count)); }

#include "validate/shadow/runtime/entry_points/cusolver.inc"

/// Also writes the norm of each matrix's residual to the host: word 20, a double for each of word 21.
#define SHADOW_SOLVE_WITH_NORMS(name)                           \
  SHADOW_API int name(SHADOW_WORDS) {                           \
    const int matrices = int_in(a21);                           \
    if (auto* const norms = pointer_in<double>(a20)) {          \
      for (std::int64_t i = 0; i < matrices; ++i) norms[i] = 0; \
    }                                                           \
    return solve(a1, #name, a19, matrices);                     \
  }
SHADOW_CDSZ(SHADOW_SOLVE_WITH_NORMS, cusolverDn, gesvdaStridedBatched)

// --- handles -------------------------------------------------------------------------------------------------------

SHADOW_API int cusolverDnCreate(LibraryHandle** handle) {
  gpuplan::shadow::check_loaded_libraries();  // PyTorch loads its linear algebra just before
  return create(handle);
}
SHADOW_API int cusolverDnDestroy(const LibraryHandle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}
SHADOW_API int cusolverDnSetStream(LibraryHandle* handle, const void* stream) {
  return set(handle, &LibraryHandle::stream, stream);
}
SHADOW_API int cusolverDnGetStream(const LibraryHandle* handle, const void** stream) {
  return get(handle, &LibraryHandle::stream, stream);
}
SHADOW_API int cusolverDnSetDeterministicMode(LibraryHandle* handle, int mode) {
  return set(handle, &LibraryHandle::deterministic, mode);
}
SHADOW_API int cusolverDnGetDeterministicMode(const LibraryHandle* handle, int* mode) {
  return get(handle, &LibraryHandle::deterministic, mode);
}
SHADOW_API int cusolverDnSetMathMode(LibraryHandle* handle, int mode) {
  return set(handle, &LibraryHandle::math_mode, mode);
}
SHADOW_API int cusolverDnGetMathMode(const LibraryHandle* handle, int* mode) {
  return get(handle, &LibraryHandle::math_mode, mode);
}

// --- parameters ----------------------------------------------------------------------------------------------------

#define SHADOW_PARAMETERS(Name)                                                                 \
  SHADOW_API int cusolverDnCreate##Name(Parameters** parameters) { return create(parameters); } \
  SHADOW_API int cusolverDnDestroy##Name(const Parameters* parameters) {                        \
    delete parameters;                                                                          \
    return kSuccess;                                                                            \
  }
SHADOW_PARAMETERS(Params)
SHADOW_PARAMETERS(SyevjInfo)
SHADOW_PARAMETERS(GesvdjInfo)
#undef SHADOW_PARAMETERS

SHADOW_API int cusolverDnSetAdvOptions(const Parameters* parameters, int /*function*/, int /*algorithm*/) {
  return parameters == nullptr ? kInvalidValue : kSuccess;
}

#define SHADOW_JACOBI(Name)                                                                                \
  SHADOW_API int cusolverDnX##Name##SetTolerance(Parameters* parameters, double tolerance) {               \
    return set(parameters, &Parameters::tolerance, tolerance);                                             \
  }                                                                                                        \
  SHADOW_API int cusolverDnX##Name##SetMaxSweeps(Parameters* parameters, int sweeps) {                     \
    return set(parameters, &Parameters::max_sweeps, sweeps);                                               \
  }                                                                                                        \
  SHADOW_API int cusolverDnX##Name##SetSortEig(Parameters* parameters, int sort) {                         \
    return set(parameters, &Parameters::sort, sort);                                                       \
  }                                                                                                        \
  SHADOW_API int cusolverDnX##Name##GetResidual(const LibraryHandle* handle, const Parameters* parameters, \
                                                double* residual) {                                        \
    return answer_zero(handle, parameters, residual);                                                      \
  }                                                                                                        \
  SHADOW_API int cusolverDnX##Name##GetSweeps(const LibraryHandle* handle, const Parameters* parameters,   \
                                              int* sweeps) {                                               \
    return answer_zero(handle, parameters, sweeps);                                                        \
  }
SHADOW_JACOBI(syevj)
SHADOW_JACOBI(gesvdj)
#undef SHADOW_JACOBI

// --- versions ------------------------------------------------------------------------------------------------------

SHADOW_API int cusolverGetProperty(int type, int* value) {
  if (value == nullptr) return kInvalidValue;
  return gpuplan::shadow::library_property("libcusolver.so.", "cusolverGetProperty", type, value) ? kSuccess
                                                                                                  : kInvalidValue;
}
SHADOW_API int cusolverGetVersion(int* version) {
  int parts[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (const int status = cusolverGetProperty(i, &parts[i])) return status;
  }
  if (version == nullptr) return kInvalidValue;
  *version = parts[0] * 1'000 + parts[1] * 100 + parts[2];  // CUSOLVER_VERSION of cusolver_common.h
  return kSuccess;
}
