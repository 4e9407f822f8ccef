// cuFFT: plans with their workspace, transforms as launches. https://docs.nvidia.com/cuda/cufft/
//
// How large a plan's workspace is depends on the GPU and the version. cuFFT's manual (2.4, "Plan initialization time")
// gives a range: from 1 to 8 times batch * n[0] * .. * n[rank - 1] complex elements. It is taken as the least, and
// noted. Not here: several GPUs (cufftXtSetGPUs and descriptors), callbacks.
#include <cstdint>
#include <map>
#include <mutex>

#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"

namespace {

// cufftResult
constexpr int kSuccess = 0;
constexpr int kInvalidPlan = 1;
constexpr int kAllocationFailed = 2;
constexpr int kInvalidType = 3;
constexpr int kInvalidValue = 4;
constexpr int kInvalidSize = 8;

constexpr const char* kLibrary = "libcufft.so.";

using Handle = int;

struct Plan {
  const void* stream = nullptr;
  std::size_t workspace_bytes = 0;
  void* workspace = nullptr;  // the plan's own, unless the program gives it one
  bool allocates = true;
  bool made = false;
};

struct Plans {
  std::mutex mutex;
  std::map<Handle, Plan> by_handle;
  Handle next = 1;
};

// Never destroyed: plans may be freed after static destructors have run.
Plans& plans() {
  static auto* const instance = new Plans;
  return *instance;
}

/// Calls `use` with the plan, which no other thread can destroy meanwhile.
template <class Use>
int with_plan(Handle handle, Use use) {
  Plans& all = plans();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_handle.find(handle);
  return found == all.by_handle.end() ? kInvalidPlan : use(found->second);
}

/// Bytes of a complex element of a cufftType (R2C 0x2a, C2R 0x2c, C2C 0x29; the same + 0x40 in double); 0: no type.
std::size_t complex_bytes_of_transform(int type) {
  switch (type) {
    case 0x29:
    case 0x2a:
    case 0x2c: return 8;
    case 0x69:
    case 0x6a:
    case 0x6c: return 16;
    default: return 0;
  }
}

/// The same by the type in which cufftXtMakePlanMany computes (CUDA_C_16F, ...).
std::size_t complex_bytes_of_execution(int type) {
  constexpr int kComplex[] = {4, 5, 6, 15};  // CUDA_C_32F, CUDA_C_64F, CUDA_C_16F, CUDA_C_16BF
  for (const int complex : kComplex) {
    if (type == complex) return gpuplan::shadow::data_type_bytes(type);
  }
  return 0;
}

/// The size of a transform: `rank` lengths, `batch` times.
template <class Length>
int measure(int rank, const Length* lengths, std::int64_t batch, std::size_t element_bytes, std::size_t* bytes) {
  if (element_bytes == 0) return kInvalidType;
  if (rank < 1 || rank > 3 || lengths == nullptr || bytes == nullptr) return kInvalidValue;
  if (batch <= 0) return kInvalidSize;
  std::size_t total = static_cast<std::size_t>(batch);
  bool fits = !__builtin_mul_overflow(total, element_bytes, &total);
  for (int i = 0; i < rank; ++i) {
    if (lengths[i] <= 0) return kInvalidSize;
    fits = fits && !__builtin_mul_overflow(total, static_cast<std::size_t>(lengths[i]), &total);
  }
  if (!fits) return kInvalidSize;
  gpuplan::shadow::note_workspace("cuFFT", "the least of the range that its manual gives");
  *bytes = total;
  return kSuccess;
}

template <class Length>
int make(Handle handle, int rank, const Length* lengths, std::int64_t batch, std::size_t element_bytes,
         std::size_t* size) {
  std::size_t bytes = 0;
  if (const int status = measure(rank, lengths, batch, element_bytes, &bytes)) return status;
  return with_plan(handle, [&](Plan& plan) {
    if (plan.made) return kInvalidPlan;  // a plan is made once
    if (plan.allocates) {
      plan.workspace = gpuplan::shadow::allocate_device(gpuplan::shadow::current_device(), bytes);
      if (plan.workspace == nullptr) return kAllocationFailed;
    }
    plan.workspace_bytes = bytes;
    plan.made = true;
    if (size != nullptr) *size = bytes;
    return kSuccess;
  });
}

int execute(Handle handle, const char* name) {
  return with_plan(handle, [&](const Plan& plan) {
    if (!plan.made) return kInvalidPlan;
    gpuplan::shadow::count_launch(plan.stream, name);
    return kSuccess;
  });
}

}  // namespace

// --- plans ---------------------------------------------------------------------------------------------------------

SHADOW_API int cufftCreate(Handle* handle) {
  if (handle == nullptr) return kInvalidValue;
  gpuplan::shadow::check_loaded_libraries();
  Plans& all = plans();
  const std::lock_guard lock(all.mutex);
  *handle = all.next++;
  all.by_handle.emplace(*handle, Plan{});
  return kSuccess;
}

SHADOW_API int cufftDestroy(Handle handle) {
  Plans& all = plans();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_handle.find(handle);
  if (found == all.by_handle.end()) return kInvalidPlan;
  if (found->second.workspace != nullptr) gpuplan::shadow::free_device(found->second.workspace);
  all.by_handle.erase(found);
  return kSuccess;
}

SHADOW_API int cufftSetStream(Handle handle, const void* stream) {
  return with_plan(handle, [&](Plan& plan) {
    plan.stream = stream;
    return kSuccess;
  });
}
SHADOW_API int cufftSetAutoAllocation(Handle handle, int allocates) {
  return with_plan(handle, [&](Plan& plan) {
    plan.allocates = allocates != 0;
    return kSuccess;
  });
}
SHADOW_API int cufftSetWorkArea(Handle handle, const void* /*workspace*/) {
  return with_plan(handle, [](Plan& plan) {
    if (plan.workspace != nullptr) gpuplan::shadow::free_device(plan.workspace);  // as the manual says
    plan.workspace = nullptr;
    return kSuccess;
  });
}
SHADOW_API int cufftGetSize(Handle handle, std::size_t* size) {
  if (size == nullptr) return kInvalidValue;
  return with_plan(handle, [&](const Plan& plan) {
    *size = plan.workspace_bytes;
    return kSuccess;
  });
}
SHADOW_API int cufftSetPlanPropertyInt64(Handle handle, int /*property*/, long long /*value*/) {
  return with_plan(handle, [](const Plan&) { return kSuccess; });
}

SHADOW_API int cufftMakePlan1d(Handle handle, int nx, int type, int batch, std::size_t* size) {
  return make(handle, 1, &nx, batch, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftMakePlan2d(Handle handle, int nx, int ny, int type, std::size_t* size) {
  const int n[] = {nx, ny};
  return make(handle, 2, n, 1, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftMakePlan3d(Handle handle, int nx, int ny, int nz, int type, std::size_t* size) {
  const int n[] = {nx, ny, nz};
  return make(handle, 3, n, 1, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftMakePlanMany(Handle handle, int rank, const int* n, const int*, int, int, const int*, int, int,
                                 int type, int batch, std::size_t* size) {
  return make(handle, rank, n, batch, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftMakePlanMany64(Handle handle, int rank, const long long* n, const long long*, long long, long long,
                                   const long long*, long long, long long, int type, long long batch,
                                   std::size_t* size) {
  return make(handle, rank, n, batch, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftXtMakePlanMany(Handle handle, int rank, const long long* n, const long long*, long long, long long,
                                   int /*input_type*/, const long long*, long long, long long, int /*output_type*/,
                                   long long batch, std::size_t* size, int execution_type) {
  return make(handle, rank, n, batch, complex_bytes_of_execution(execution_type), size);
}

/// cufftPlan*: create and make in one.
#define SHADOW_PLAN(...)                                     \
  if (const int status = cufftCreate(handle)) return status; \
  const int status = __VA_ARGS__;                            \
  if (status != kSuccess) cufftDestroy(*handle);             \
  return status
SHADOW_API int cufftPlan1d(Handle* handle, int nx, int type, int batch) {
  SHADOW_PLAN(cufftMakePlan1d(*handle, nx, type, batch, nullptr));
}
SHADOW_API int cufftPlan2d(Handle* handle, int nx, int ny, int type) {
  SHADOW_PLAN(cufftMakePlan2d(*handle, nx, ny, type, nullptr));
}
SHADOW_API int cufftPlan3d(Handle* handle, int nx, int ny, int nz, int type) {
  SHADOW_PLAN(cufftMakePlan3d(*handle, nx, ny, nz, type, nullptr));
}
SHADOW_API int cufftPlanMany(Handle* handle, int rank, const int* n, const int* inembed, int istride, int idist,
                             const int* onembed, int ostride, int odist, int type, int batch) {
  SHADOW_PLAN(
      cufftMakePlanMany(*handle, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, nullptr));
}
#undef SHADOW_PLAN

// --- sizes without a plan ------------------------------------------------------------------------------------------

SHADOW_API int cufftEstimate1d(int nx, int type, int batch, std::size_t* size) {
  return measure(1, &nx, batch, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftEstimate2d(int nx, int ny, int type, std::size_t* size) {
  const int n[] = {nx, ny};
  return measure(2, n, 1, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftEstimate3d(int nx, int ny, int nz, int type, std::size_t* size) {
  const int n[] = {nx, ny, nz};
  return measure(3, n, 1, complex_bytes_of_transform(type), size);
}
SHADOW_API int cufftEstimateMany(int rank, const int* n, const int*, int, int, const int*, int, int, int type,
                                 int batch, std::size_t* size) {
  return measure(rank, n, batch, complex_bytes_of_transform(type), size);
}

// --- transforms ----------------------------------------------------------------------------------------------------

#define SHADOW_TRANSFORM(name) \
  SHADOW_API int name(Handle handle) { return execute(handle, #name); }
SHADOW_TRANSFORM(cufftExecC2C)
SHADOW_TRANSFORM(cufftExecR2C)
SHADOW_TRANSFORM(cufftExecC2R)
SHADOW_TRANSFORM(cufftExecZ2Z)
SHADOW_TRANSFORM(cufftExecD2Z)
SHADOW_TRANSFORM(cufftExecZ2D)
SHADOW_TRANSFORM(cufftXtExec)
#undef SHADOW_TRANSFORM

// --- versions ------------------------------------------------------------------------------------------------------

SHADOW_API int cufftGetProperty(int type, int* value) {
  if (value == nullptr) return kInvalidValue;
  return gpuplan::shadow::library_property(kLibrary, "cufftGetProperty", type, value) ? kSuccess : kInvalidValue;
}
SHADOW_API int cufftGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  int parts[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (const int status = cufftGetProperty(i, &parts[i])) return status;
  }
  *version = parts[0] * 1'000 + parts[1] * 100 + parts[2];  // CUFFT_VERSION of cufft.h
  return kSuccess;
}
