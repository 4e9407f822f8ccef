// What is known of a missing function by its name alone, and of the wheel that calls it.
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>

#include "validate/shadow/runtime/missing.h"

namespace gpuplan::shadow {
namespace {

struct Family {
  std::string_view prefix;
  int not_supported;  // of the family's status type
};

// Longer prefixes first. Values from the families' public headers. Left out, because NVIDIA's own library serves
// without a GPU: NVRTC, nvJitLink, NVTX.
constexpr std::array kFamilies{
    Family{"cublas", 15},                       // CUBLAS_STATUS_NOT_SUPPORTED, cuBLASLt's too
    Family{"cudnn", 3000},                      // CUDNN_STATUS_NOT_SUPPORTED of cuDNN 9
    Family{"cusolver", 9},                      // CUSOLVER_STATUS_NOT_SUPPORTED
    Family{"cusparse", 10},                     // CUSPARSE_STATUS_NOT_SUPPORTED, cuSPARSELt's too
    Family{"cufft", 16},                        // CUFFT_NOT_SUPPORTED
    Family{"curand", 999},                      // CURAND_STATUS_INTERNAL_ERROR: it has no other
    Family{"cupti", 27},                        // CUPTI_ERROR_NOT_SUPPORTED
    Family{"cuFile", 5007},                     // CU_FILE_PLATFORM_NOT_SUPPORTED, in the first half of a CUfileError_t
    Family{"nccl", 5},                          // ncclInvalidUsage: it has no other
    Family{"nvshmem", 3},                       // NVSHMEMX_ERROR_NOT_SUPPORTED
    Family{"nvjpeg", 9},                        // NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED
    Family{"nvml", 3},                          // NVML_ERROR_NOT_SUPPORTED
    Family{"npp", -9999},                       // NPP_NOT_SUPPORTED_MODE_ERROR
    Family{"cuda", 801},                        // cudaErrorNotSupported
    Family{"__cuda", 801},  Family{"cu", 801},  // CUDA_ERROR_NOT_SUPPORTED
};

/// A prefix is a family's only where a new word begins: cudaMalloc, cublasLtMatmul, nvshmem_init, not "cudart_helper".
bool begins_word(std::string_view function, std::size_t at) {
  return at < function.size() && (std::isupper(static_cast<unsigned char>(function[at])) != 0);
}

const Family* family_of(std::string_view function) {
  for (const Family& family : kFamilies) {
    if (!function.starts_with(family.prefix)) continue;
    const bool loose = family.prefix == "nvshmem" || family.prefix == "npp";  // nvshmemx_get_uniqueid, nppiMulC
    if (loose || begins_word(function, family.prefix.size())) return &family;
  }
  return nullptr;
}

constexpr std::array<std::string_view, 26> kLibraries{
    "libcuda.so",  "libcudart",     "libcublas",         "libcudnn",      "libcufft",   "libcurand", "libcusolver",
    "libcusparse", "libnccl.so",    "libnvrtc",          "libnvJitLink",  "libcupti",   "libcufile", "libnvshmem",
    "nvshmem_",    "libnvjpeg",     "libnvidia-",        "libnvToolsExt", "libnvtx3",   "libnpp",    "libnvblas",
    "libnvperf",   "libcheckpoint", "libpcsamplingutil", "libcudadevrt",  "libnvfatbin"};

/// The text between quotes after `__version__` at the start of a line; empty where there is none.
std::string read_version(const std::filesystem::path& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("__version__")) continue;
    const std::size_t begin = line.find_first_of("'\"");
    if (begin == std::string::npos) continue;
    const std::size_t end = line.find(line[begin], begin + 1);
    if (end != std::string::npos) return line.substr(begin + 1, end - begin - 1);
  }
  return {};
}

}  // namespace

std::string_view cuda_family(std::string_view function) {
  const Family* const family = family_of(function);
  return family == nullptr ? std::string_view() : family->prefix;
}

std::uintptr_t not_supported(std::string_view function) {
  const Family* const family = family_of(function);
  if (family == nullptr) return 0;
  static constexpr char kText[] = "not supported by the gpuplan shadow runtime";
  // cudaGetErrorString, ncclGetLastError, nvmlErrorString: a text.
  if (function.ends_with("String") || function.ends_with("ErrorName") || function == "ncclGetLastError") {
    return reinterpret_cast<std::uintptr_t>(kText);
  }
  // nvshmem_malloc, nvshmem_ptr, nvshmemx_mc_ptr, ...: a pointer.
  if (function.starts_with("nvshmem") && (function.ends_with("alloc") || function.ends_with("_ptr"))) return 0;
  // cuFileRead and cuFileWrite return bytes, or a negative status.
  const bool bytes = function == "cuFileRead" || function == "cuFileWrite";
  const std::int64_t status = family->not_supported;
  return static_cast<std::uintptr_t>(bytes ? -status : status);
}

bool is_cuda_library(std::string_view file_name) {
  for (const std::string_view prefix : kLibraries) {
    if (file_name.starts_with(prefix)) return true;
  }
  return false;
}

std::string wheel_of(std::string_view path) {
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  for (int level = 0; level < 3 && directory.has_filename(); ++level, directory = directory.parent_path()) {
    const std::string version = read_version(directory / "version.py");
    if (!version.empty()) return directory.filename().string() + " " + version;
  }
  return {};
}

}  // namespace gpuplan::shadow
