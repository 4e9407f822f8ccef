// Workspace sizes of cuSOLVER. NVIDIA documents none and the library decides by GPU and version, so each is LAPACK's
// smallest for the same routine (https://netlib.org/lapack/explore-html/, argument LWORK) and noted as assumed. Where
// LAPACK splits it into WORK and RWORK and cuSOLVER does not, both count. Jacobi eigenvalues (syevj), which LAPACK does
// not have, are taken as syevd; batches as so many single matrices.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/runtime.h"

namespace {

using gpuplan::shadow::LibraryHandle;

// cusolverStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 3;

// In elements of the matrix's type.
struct Kind {
  bool complex;
};
constexpr Kind kS{false}, kD{false}, kC{true}, kZ{true};

using Count = std::int64_t;

Count syevd(Kind kind, bool vectors, Count n) {
  if (n <= 1) return 1;
  if (!kind.complex) return vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1;
  const Count reals = vectors ? 1 + 5 * n + 2 * n * n : n;  // RWORK
  return (vectors ? 2 * n + n * n : n + 1) + (reals + 1) / 2;
}

Count gesvd(Kind kind, Count m, Count n) {
  const Count small = std::min(m, n), large = std::max(m, n);
  return std::max<Count>(1, kind.complex ? 2 * small + large : std::max(3 * small + large, 5 * small));
}

Count gesvj(Count m, Count n) { return std::max<Count>(6, m + n); }

Count geev(Kind kind, bool vectors, Count n) {
  if (kind.complex) return std::max<Count>(1, 2 * n) + n;  // RWORK: 2 n reals
  return std::max<Count>(1, (vectors ? 4 : 3) * n);
}

int answer(const LibraryHandle* handle, int* size, Count elements, const char* function) {
  if (handle == nullptr) return kNotInitialized;
  if (size == nullptr || elements > std::numeric_limits<int>::max()) return kInvalidValue;
  gpuplan::shadow::note_workspace(function, "LAPACK's smallest");
  *size = static_cast<int>(elements);
  return kSuccess;
}

/// The newer functions ask in bytes, of the device and of the host; all is taken to be on the device.
int answer_bytes(const LibraryHandle* handle, std::size_t* device, std::size_t* host, Count elements, int type,
                 const char* function) {
  if (handle == nullptr) return kNotInitialized;
  const std::size_t element = gpuplan::shadow::data_type_bytes(type);
  if (device == nullptr || host == nullptr || element == 0) return kInvalidValue;
  gpuplan::shadow::note_workspace(function, "LAPACK's smallest");
  *device = static_cast<std::size_t>(elements) * element;
  *host = 0;
  return kSuccess;
}

constexpr Kind kind_of(int type) { return {type == 4 || type == 5}; }  // CUDA_C_32F, CUDA_C_64F

using Matrix = const void*;

}  // namespace

#define SHADOW_SDCZ(define) define(S) define(D) define(C) define(Z)

// Cholesky and LU need none in LAPACK.
#define SHADOW_SIZE(T)                                                                                              \
  SHADOW_API int cusolverDn##T##potrf_bufferSize(const LibraryHandle* handle, int /*uplo*/, int /*n*/, Matrix, int, \
                                                 int* size) {                                                       \
    return answer(handle, size, 0, "cusolverDn" #T "potrf");                                                        \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##potri_bufferSize(const LibraryHandle* handle, int /*uplo*/, int /*n*/, Matrix, int, \
                                                 int* size) {                                                       \
    return answer(handle, size, 0, "cusolverDn" #T "potri");                                                        \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##getrf_bufferSize(const LibraryHandle* handle, int /*m*/, int /*n*/, Matrix, int,    \
                                                 int* size) {                                                       \
    return answer(handle, size, 0, "cusolverDn" #T "getrf");                                                        \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##geqrf_bufferSize(const LibraryHandle* handle, int /*m*/, int n, Matrix, int,        \
                                                 int* size) {                                                       \
    return answer(handle, size, std::max(1, n), "cusolverDn" #T "geqrf");                                           \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##sytrf_bufferSize(const LibraryHandle* handle, int /*n*/, Matrix, int, int* size) {  \
    return answer(handle, size, 1, "cusolverDn" #T "sytrf");                                                        \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##gesvd_bufferSize(const LibraryHandle* handle, int m, int n, int* size) {            \
    return answer(handle, size, gesvd(k##T, m, n), "cusolverDn" #T "gesvd");                                        \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##gesvdj_bufferSize(const LibraryHandle* handle, int /*jobz*/, int /*econ*/, int m,   \
                                                  int n, Matrix, int, const void*, Matrix, int, Matrix, int,        \
                                                  int* size, const void*) {                                         \
    return answer(handle, size, gesvj(m, n), "cusolverDn" #T "gesvdj");                                             \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##gesvdjBatched_bufferSize(const LibraryHandle* handle, int /*jobz*/, int m, int n,   \
                                                         Matrix, int, const void*, Matrix, int, Matrix, int,        \
                                                         int* size, const void*, int batch) {                       \
    return answer(handle, size, gesvj(m, n) * batch, "cusolverDn" #T "gesvdjBatched");                              \
  }                                                                                                                 \
  SHADOW_API int cusolverDn##T##gesvdaStridedBatched_bufferSize(                                                    \
      const LibraryHandle* handle, int /*jobz*/, int /*rank*/, int m, int n, Matrix, int, long long, const void*,   \
      long long, Matrix, int, long long, Matrix, int, long long, int* size, int batch) {                            \
    return answer(handle, size, gesvd(k##T, m, n) * batch, "cusolverDn" #T "gesvdaStridedBatched");                 \
  }
SHADOW_SDCZ(SHADOW_SIZE)
#undef SHADOW_SIZE

#define SHADOW_SIZE(T, orgqr, ormqr, syev)                                                                             \
  SHADOW_API int cusolverDn##T##orgqr##_bufferSize(const LibraryHandle* handle, int /*m*/, int n, int /*k*/, Matrix,   \
                                                   int, Matrix, int* size) {                                           \
    return answer(handle, size, std::max(1, n), "cusolverDn" #T #orgqr);                                               \
  }                                                                                                                    \
  SHADOW_API int cusolverDn##T##ormqr##_bufferSize(const LibraryHandle* handle, int side, int /*trans*/, int m, int n, \
                                                   int /*k*/, Matrix, int, Matrix, Matrix, int, int* size) {           \
    return answer(handle, size, std::max(1, side == 0 ? n : m), "cusolverDn" #T #ormqr);                               \
  }                                                                                                                    \
  SHADOW_API int cusolverDn##T##syev##d_bufferSize(const LibraryHandle* handle, int jobz, int /*uplo*/, int n, Matrix, \
                                                   int, const void*, int* size) {                                      \
    return answer(handle, size, syevd(k##T, jobz != 0, n), "cusolverDn" #T #syev "d");                                 \
  }                                                                                                                    \
  SHADOW_API int cusolverDn##T##syev##j_bufferSize(const LibraryHandle* handle, int jobz, int /*uplo*/, int n, Matrix, \
                                                   int, const void*, int* size, const void*) {                         \
    return answer(handle, size, syevd(k##T, jobz != 0, n), "cusolverDn" #T #syev "j");                                 \
  }                                                                                                                    \
  SHADOW_API int cusolverDn##T##syev##jBatched_bufferSize(const LibraryHandle* handle, int jobz, int /*uplo*/, int n,  \
                                                          Matrix, int, const void*, int* size, const void*,            \
                                                          int batch) {                                                 \
    return answer(handle, size, syevd(k##T, jobz != 0, n) * batch, "cusolverDn" #T #syev "jBatched");                  \
  }
SHADOW_SIZE(S, orgqr, ormqr, syev)
SHADOW_SIZE(D, orgqr, ormqr, syev)
SHADOW_SIZE(C, ungqr, unmqr, heev)
SHADOW_SIZE(Z, ungqr, unmqr, heev)
#undef SHADOW_SIZE

// --- of any type ---------------------------------------------------------------------------------------------------

SHADOW_API int cusolverDnXpotrf_bufferSize(const LibraryHandle* handle, const void*, int, std::int64_t, int type,
                                           Matrix, std::int64_t, int, std::size_t* device, std::size_t* host) {
  return answer_bytes(handle, device, host, 0, type, "cusolverDnXpotrf");
}
SHADOW_API int cusolverDnXgetrf_bufferSize(const LibraryHandle* handle, const void*, std::int64_t, std::int64_t,
                                           int type, Matrix, std::int64_t, int, std::size_t* device,
                                           std::size_t* host) {
  return answer_bytes(handle, device, host, 0, type, "cusolverDnXgetrf");
}
SHADOW_API int cusolverDnXtrtri_bufferSize(const LibraryHandle* handle, int, int, std::int64_t, int type, Matrix,
                                           std::int64_t, std::size_t* device, std::size_t* host) {
  return answer_bytes(handle, device, host, 0, type, "cusolverDnXtrtri");
}
SHADOW_API int cusolverDnXgeqrf_bufferSize(const LibraryHandle* handle, const void*, std::int64_t, std::int64_t n,
                                           int type, Matrix, std::int64_t, int, const void*, int, std::size_t* device,
                                           std::size_t* host) {
  return answer_bytes(handle, device, host, std::max<Count>(1, n), type, "cusolverDnXgeqrf");
}
SHADOW_API int cusolverDnXsytrs_bufferSize(const LibraryHandle* handle, int, std::int64_t, std::int64_t, int type,
                                           Matrix, std::int64_t, const std::int64_t*, int, Matrix, std::int64_t,
                                           std::size_t* device, std::size_t* host) {
  return answer_bytes(handle, device, host, 0, type, "cusolverDnXsytrs");
}
SHADOW_API int cusolverDnXsyevd_bufferSize(const LibraryHandle* handle, const void*, int jobz, int, std::int64_t n,
                                           int type, Matrix, std::int64_t, int, const void*, int, std::size_t* device,
                                           std::size_t* host) {
  return answer_bytes(handle, device, host, syevd(kind_of(type), jobz != 0, n), type, "cusolverDnXsyevd");
}
SHADOW_API int cusolverDnXsyevBatched_bufferSize(const LibraryHandle* handle, const void*, int jobz, int,
                                                 std::int64_t n, int type, Matrix, std::int64_t, int, const void*, int,
                                                 std::size_t* device, std::size_t* host, std::int64_t batch) {
  return answer_bytes(handle, device, host, syevd(kind_of(type), jobz != 0, n) * batch, type, "cusolverDnXsyevBatched");
}
SHADOW_API int cusolverDnXgesvd_bufferSize(const LibraryHandle* handle, const void*, signed char, signed char,
                                           std::int64_t m, std::int64_t n, int type, Matrix, std::int64_t, int,
                                           const void*, int, Matrix, std::int64_t, int, Matrix, std::int64_t, int,
                                           std::size_t* device, std::size_t* host) {
  return answer_bytes(handle, device, host, gesvd(kind_of(type), m, n), type, "cusolverDnXgesvd");
}
SHADOW_API int cusolverDnXgeev_bufferSize(const LibraryHandle* handle, const void*, int jobvl, int jobvr,
                                          std::int64_t n, int type, Matrix, std::int64_t, int, const void*, int, Matrix,
                                          std::int64_t, int, Matrix, std::int64_t, int, std::size_t* device,
                                          std::size_t* host) {
  return answer_bytes(handle, device, host, geev(kind_of(type), jobvl != 0 || jobvr != 0, n), type, "cusolverDnXgeev");
}
