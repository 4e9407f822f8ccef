// cuBLASLt: descriptors with their attributes, one algorithm for every multiplication, which needs no workspace, and
// multiplications as launches. https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api
//
// The workspace that PyTorch offers is one that it allocated before it asks for an algorithm, so its memory is real.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "validate/shadow/runtime/cublaslt_descriptor.h"
#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/runtime.h"

namespace {

using gpuplan::shadow::LibraryHandle;

// cublasStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 7;

constexpr const char* kLibrary = "libcublasLt.so.";
using gpuplan::shadow::cublaslt::describe;
using gpuplan::shadow::cublaslt::describe_operation;
using gpuplan::shadow::cublaslt::Descriptor;
using gpuplan::shadow::cublaslt::hexadecimal;
using gpuplan::shadow::cublaslt::kAttributes;
using gpuplan::shadow::cublaslt::kColumns;
using gpuplan::shadow::cublaslt::kLargestAttribute;
using gpuplan::shadow::cublaslt::kRows;

template <class T>
void put(Descriptor& descriptor, std::size_t attribute, T value) {
  static_assert(sizeof(T) <= kLargestAttribute);
  std::memcpy(&descriptor.attributes[attribute], &value, sizeof(T));
}

bool valid(const Descriptor* descriptor, int attribute) {
  return descriptor != nullptr && attribute >= 0 && attribute < kAttributes;
}

int create(Descriptor** out) {
  if (out == nullptr) return kInvalidValue;
  *out = new Descriptor;
  return kSuccess;
}

int destroy(const Descriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}

int set(Descriptor* descriptor, int attribute, const void* value, std::size_t bytes) {
  if (!valid(descriptor, attribute) || value == nullptr || bytes == 0 || bytes > kLargestAttribute) {
    return kInvalidValue;
  }
  std::memcpy(&descriptor->attributes[static_cast<std::size_t>(attribute)], value, bytes);
  return kSuccess;
}

int get(const Descriptor* descriptor, int attribute, void* value, std::size_t bytes, std::size_t* written) {
  if (!valid(descriptor, attribute) || (bytes == 0 && written == nullptr)) return kInvalidValue;
  if (written != nullptr) *written = bytes == 0 ? kLargestAttribute : bytes;
  if (bytes == 0) return kSuccess;  // a question for the size alone
  if (value == nullptr || bytes > kLargestAttribute) return kInvalidValue;
  std::memcpy(value, &descriptor->attributes[static_cast<std::size_t>(attribute)], bytes);
  return kSuccess;
}

/// cublasLtMatmulAlgo_t, opaque: here the attributes of AlgoConfigSetAttribute, by number.
struct Algorithm {
  std::uint32_t config[16];
};
static_assert(sizeof(Algorithm) == 64);

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;         // cublasStatus_t
  float wave_count;  // 1: as much work as the GPU takes at once
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96);

HeuristicResult any_algorithm() {
  HeuristicResult result{};
  result.wave_count = 1;
  return result;
}

/// Whether an algorithm has the attribute in that size: each is a uint32 or, the shapes' ids, a uint16.
bool config_attribute(int attribute, std::size_t bytes) {
  return attribute >= 0 && attribute < 16 && bytes > 0 && bytes <= sizeof(std::uint32_t);
}

}  // namespace

// --- the library ---------------------------------------------------------------------------------------------------

SHADOW_API int cublasLtCreate(LibraryHandle** handle) {
  if (handle == nullptr) return kInvalidValue;
  *handle = new LibraryHandle;
  return kSuccess;
}
SHADOW_API int cublasLtDestroy(const LibraryHandle* handle) {
  if (handle == nullptr) return kNotInitialized;
  delete handle;
  return kSuccess;
}

SHADOW_API int cublasLtGetProperty(int type, int* value) {
  if (value == nullptr) return kInvalidValue;
  return gpuplan::shadow::library_property(kLibrary, "cublasLtGetProperty", type, value) ? kSuccess : kInvalidValue;
}
SHADOW_API std::size_t cublasLtGetVersion() {
  int parts[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) cublasLtGetProperty(i, &parts[i]);
  return static_cast<std::size_t>(parts[0] * 10'000 + parts[1] * 100 + parts[2]);
}
SHADOW_API std::size_t cublasLtGetCudartVersion() {
  return static_cast<std::size_t>(gpuplan::shadow::toolkit_version());
}
SHADOW_API const char* cublasLtGetStatusName(int status) {
  using Name = const char* (*)(int);
  const auto real = reinterpret_cast<Name>(gpuplan::shadow::real_symbol(kLibrary, "cublasLtGetStatusName"));
  return real != nullptr ? real(status) : status == kSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_UNKNOWN";
}
SHADOW_API const char* cublasLtGetStatusString(int status) {
  using Text = const char* (*)(int);
  const auto real = reinterpret_cast<Text>(gpuplan::shadow::real_symbol(kLibrary, "cublasLtGetStatusString"));
  return real != nullptr ? real(status) : status == kSuccess ? "success" : "cuBLASLt error";
}

SHADOW_API int cublasLtLoggerSetCallback(const void*) { return kSuccess; }
SHADOW_API int cublasLtLoggerSetFile(const void*) { return kSuccess; }
SHADOW_API int cublasLtLoggerOpenFile(const char*) { return kSuccess; }
SHADOW_API int cublasLtLoggerSetLevel(int) { return kSuccess; }
SHADOW_API int cublasLtLoggerSetMask(int) { return kSuccess; }
SHADOW_API int cublasLtLoggerForceDisable() { return kSuccess; }

// --- descriptors ---------------------------------------------------------------------------------------------------

#define SHADOW_DESCRIPTOR(Name)                                                                         \
  SHADOW_API int cublasLt##Name##Destroy(const Descriptor* descriptor) { return destroy(descriptor); }  \
  SHADOW_API int cublasLt##Name##SetAttribute(Descriptor* descriptor, int attribute, const void* value, \
                                              std::size_t bytes) {                                      \
    return set(descriptor, attribute, value, bytes);                                                    \
  }                                                                                                     \
  SHADOW_API int cublasLt##Name##GetAttribute(const Descriptor* descriptor, int attribute, void* value, \
                                              std::size_t bytes, std::size_t* written) {                \
    return get(descriptor, attribute, value, bytes, written);                                           \
  }
SHADOW_DESCRIPTOR(MatrixLayout)
SHADOW_DESCRIPTOR(MatmulDesc)
SHADOW_DESCRIPTOR(MatrixTransformDesc)
SHADOW_DESCRIPTOR(MatmulPreference)
SHADOW_DESCRIPTOR(EmulationDesc)
#undef SHADOW_DESCRIPTOR

SHADOW_API int cublasLtMatrixLayoutCreate(Descriptor** layout, int type, std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  if (const int status = create(layout)) return status;
  put(**layout, 0, type);  // CUBLASLT_MATRIX_LAYOUT_TYPE
  put(**layout, kRows, rows);
  put(**layout, kColumns, columns);
  put(**layout, 4, ld);  // ..._LD
  put(**layout, 5, 1);   // ..._BATCH_COUNT
  return kSuccess;
}
SHADOW_API int cublasLtMatmulDescCreate(Descriptor** multiplication, int compute_type, int scale_type) {
  if (const int status = create(multiplication)) return status;
  put(**multiplication, 0, compute_type);  // CUBLASLT_MATMUL_DESC_COMPUTE_TYPE
  put(**multiplication, 1, scale_type);    // ..._SCALE_TYPE
  put(**multiplication, 7, 1);             // ..._EPILOGUE: CUBLASLT_EPILOGUE_DEFAULT
  return kSuccess;
}
SHADOW_API int cublasLtMatrixTransformDescCreate(Descriptor** transform, int scale_type) {
  if (const int status = create(transform)) return status;
  put(**transform, 0, scale_type);  // CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE
  return kSuccess;
}
SHADOW_API int cublasLtMatmulPreferenceCreate(Descriptor** preference) { return create(preference); }
SHADOW_API int cublasLtEmulationDescCreate(Descriptor** emulation) { return create(emulation); }

// --- algorithms ----------------------------------------------------------------------------------------------------

SHADOW_API int cublasLtMatmulAlgoGetHeuristic(const LibraryHandle* handle, const Descriptor* multiplication,
                                              const Descriptor* a, const Descriptor* b, const Descriptor* c,
                                              const Descriptor* d, const Descriptor* preference, int wanted,
                                              HeuristicResult* results, int* found) {
  if (handle == nullptr) return kNotInitialized;
  if (multiplication == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      preference == nullptr || wanted <= 0 || results == nullptr || found == nullptr) {
    return kInvalidValue;
  }
  results[0] = any_algorithm();
  *found = 1;
  return kSuccess;
}

SHADOW_API int cublasLtMatmulAlgoGetIds(const LibraryHandle* handle, int, int, int, int, int, int, int wanted, int* ids,
                                        int* found) {
  if (handle == nullptr) return kNotInitialized;
  if (wanted <= 0 || ids == nullptr || found == nullptr) return kInvalidValue;
  ids[0] = 0;
  *found = 1;
  return kSuccess;
}

SHADOW_API int cublasLtMatmulAlgoInit(const LibraryHandle* handle, int, int, int, int, int, int, int id,
                                      Algorithm* algorithm) {
  if (handle == nullptr) return kNotInitialized;
  if (algorithm == nullptr || id < 0) return kInvalidValue;
  *algorithm = {};
  algorithm->config[0] = static_cast<std::uint32_t>(id);  // CUBLASLT_ALGO_CONFIG_ID
  return kSuccess;
}

SHADOW_API int cublasLtMatmulAlgoCheck(const LibraryHandle* handle, const Descriptor*, const Descriptor*,
                                       const Descriptor*, const Descriptor*, const Descriptor*,
                                       const Algorithm* algorithm, HeuristicResult* result) {
  if (handle == nullptr) return kNotInitialized;
  if (algorithm == nullptr || result == nullptr) return kInvalidValue;
  *result = any_algorithm();
  result->algorithm = *algorithm;
  return kSuccess;
}

SHADOW_API int cublasLtMatmulAlgoConfigSetAttribute(Algorithm* algorithm, int attribute, const void* value,
                                                    std::size_t bytes) {
  if (algorithm == nullptr || value == nullptr || !config_attribute(attribute, bytes)) return kInvalidValue;
  std::memcpy(&algorithm->config[attribute], value, bytes);
  return kSuccess;
}

SHADOW_API int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  if (algorithm == nullptr || value == nullptr || !config_attribute(attribute, bytes)) return kInvalidValue;
  std::memcpy(value, &algorithm->config[attribute], bytes);
  if (written != nullptr) *written = bytes;
  return kSuccess;
}

// --- computations --------------------------------------------------------------------------------------------------

SHADOW_API int cublasLtMatmul(const LibraryHandle* handle, const Descriptor* multiplication, const void* /*alpha*/,
                              const void* a, const Descriptor* a_layout, const void* b, const Descriptor* b_layout,
                              const void* /*beta*/, const void* c, const Descriptor* c_layout, const void* d,
                              const Descriptor* d_layout, const Algorithm* /*algorithm*/, const void* workspace,
                              std::size_t workspace_bytes, const void* stream) {
  if (handle == nullptr) return kNotInitialized;
  if (multiplication == nullptr || a_layout == nullptr || b_layout == nullptr || c_layout == nullptr ||
      d_layout == nullptr) {
    return kInvalidValue;
  }
  if (!gpuplan::shadow::recording_launches()) {
    gpuplan::shadow::count_launch(stream, "cublasLtMatmul");
    return kSuccess;
  }
  const std::string configuration = describe("a", a, *a_layout) + describe(" b", b, *b_layout) +
                                    describe(" c", c, *c_layout) + describe(" d", d, *d_layout) + " workspace " +
                                    hexadecimal(workspace) + " " + std::to_string(workspace_bytes) + " bytes" +
                                    describe_operation(*multiplication, *d_layout);
  gpuplan::shadow::count_launch(stream, "cublasLtMatmul", configuration.c_str());
  return kSuccess;
}

SHADOW_API int cublasLtMatrixTransform(const LibraryHandle* handle, const Descriptor* transform, const void* /*alpha*/,
                                       const void* /*a*/, const Descriptor*, const void* /*beta*/, const void* /*b*/,
                                       const Descriptor*, const void* /*c*/, const Descriptor*, const void* stream) {
  if (handle == nullptr) return kNotInitialized;
  if (transform == nullptr) return kInvalidValue;
  gpuplan::shadow::count_launch(stream, "cublasLtMatrixTransform");
  return kSuccess;
}
