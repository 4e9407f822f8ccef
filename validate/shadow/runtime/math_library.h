// What the files that stand for CUDA's math libraries share: handles with their state, and a way to define an entry
// point of which only some arguments matter.
//
// A computation is counted, never done. Such an entry point is a name in entry_points/*.inc, so that a newer name is
// one line there; functions that answer something (handles, workspace sizes, versions) are written out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {

/// The state of a cublasHandle_t, cusolverDnHandle_t or cusparseHandle_t.
struct LibraryHandle {
  const void* stream = nullptr;
  int pointer_mode = 0;   // 0: scalars and scalar results lie on the host, 1: on the device (cuBLAS and cuSPARSE alike)
  int math_mode = 0;      // CUBLAS_DEFAULT_MATH
  int atomics_mode = 0;   // CUBLAS_ATOMICS_NOT_ALLOWED
  int deterministic = 0;  // cusolverDnSetDeterministicMode's
  int sm_count_target = 0;
};

/// One argument of integer class. The System V x86-64 and AArch64 ABIs pass each integer and pointer in the next of the
/// same registers and then 8-byte stack slots, and floating-point arguments elsewhere, and the caller cleans up: so a
/// function of words finds the k-th integer or pointer of any C function in its k-th word. Of a narrower integer the
/// upper bits are undefined.
using Word = std::uint64_t;

template <class T>
T* pointer_in(Word word) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(word));
}
constexpr int int_in(Word word) { return static_cast<int>(static_cast<std::uint32_t>(word)); }

/// Bytes of a cudaDataType_t (library_types.h): 0 where unknown, and for types of less than a byte.
std::size_t data_type_bytes(int type);
/// `count` ints read 0 from now on: where a computation leaves its status ("info"), on the host or on a device. Null:
/// nothing.
void write_success(void* info, std::int64_t count);
/// Notes that `function` ("cusolverDnSpotrf") has a workspace whose size NVIDIA does not document, and what it is taken
/// as ("0 bytes").
void note_workspace(const char* function, const char* taken_as);
/// cudaLibraryPropertyType (0 major, 1 minor, 2 patch) of the real library whose file name begins with `prefix`, from
/// its function `get` (cublasGetProperty); the toolkit's version where the library is not there. False: unknown type.
bool library_property(const char* prefix, const char* get, int type, int* value);

}  // namespace gpuplan::shadow

// The arguments of an entry point of which few matter. 24 are enough for all (cusolverDnXgesvd has 23).
#define SHADOW_WORDS                                                                              \
  [[maybe_unused]] ::gpuplan::shadow::Word a1, [[maybe_unused]] ::gpuplan::shadow::Word a2,       \
      [[maybe_unused]] ::gpuplan::shadow::Word a3, [[maybe_unused]] ::gpuplan::shadow::Word a4,   \
      [[maybe_unused]] ::gpuplan::shadow::Word a5, [[maybe_unused]] ::gpuplan::shadow::Word a6,   \
      [[maybe_unused]] ::gpuplan::shadow::Word a7, [[maybe_unused]] ::gpuplan::shadow::Word a8,   \
      [[maybe_unused]] ::gpuplan::shadow::Word a9, [[maybe_unused]] ::gpuplan::shadow::Word a10,  \
      [[maybe_unused]] ::gpuplan::shadow::Word a11, [[maybe_unused]] ::gpuplan::shadow::Word a12, \
      [[maybe_unused]] ::gpuplan::shadow::Word a13, [[maybe_unused]] ::gpuplan::shadow::Word a14, \
      [[maybe_unused]] ::gpuplan::shadow::Word a15, [[maybe_unused]] ::gpuplan::shadow::Word a16, \
      [[maybe_unused]] ::gpuplan::shadow::Word a17, [[maybe_unused]] ::gpuplan::shadow::Word a18, \
      [[maybe_unused]] ::gpuplan::shadow::Word a19, [[maybe_unused]] ::gpuplan::shadow::Word a20, \
      [[maybe_unused]] ::gpuplan::shadow::Word a21, [[maybe_unused]] ::gpuplan::shadow::Word a22, \
      [[maybe_unused]] ::gpuplan::shadow::Word a23, [[maybe_unused]] ::gpuplan::shadow::Word a24

// An entry point in the types of LAPACK's letters: SHADOW_DS(SHADOW_SOLVE, cusolverDn, orgqr, 10) is
// SHADOW_SOLVE(cusolverDnDorgqr, 10) and SHADOW_SOLVE(cusolverDnSorgqr, 10).
#define SHADOW_CZ(define, library, ...) define(library##C##__VA_ARGS__) define(library##Z##__VA_ARGS__)
#define SHADOW_DS(define, library, ...) define(library##D##__VA_ARGS__) define(library##S##__VA_ARGS__)
#define SHADOW_CDSZ(define, library, ...) \
  SHADOW_CZ(define, library, __VA_ARGS__) SHADOW_DS(define, library, __VA_ARGS__)
