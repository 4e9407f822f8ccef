// CUDA's math libraries without a GPU, called as a program calls them, and what happens to functions that are missing.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "validate/shadow/runtime/cublaslt_descriptor.h"
#include "validate/shadow/runtime/missing.h"
#include "validate/shadow/runtime/runtime.h"

using namespace gpuplan::shadow;

// As the public headers declare them, with every handle a void*.
extern "C" {
int cudaMalloc(void**, std::size_t);
int cudaFree(void*);
int cudaMemcpy(void*, const void*, std::size_t, int);
std::int64_t gpuplan_shadow_launches();

int cublasCreate_v2(void**);
int cublasDestroy_v2(void*);
int cublasSetStream_v2(void*, void*);
int cublasGetStream_v2(void*, void**);
int cublasSetPointerMode_v2(void*, int);
int cublasGetPointerMode_v2(void*, int*);
int cublasSetWorkspace_v2(void*, void*, std::size_t);
int cublasSgemm_v2(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                   float*, int);
int cublasSdot_v2(void*, int, const float*, int, const float*, int, float*);
int cublasIsamax_v2(void*, int, const float*, int, int*);
int cublasNrm2Ex(void*, int, const void*, int, int, void*, int, int);
int cublasSgetrfBatched(void*, int, float* const*, int, int*, int*, int);
int cublasSgelsBatched(void*, int, int, int, int, float* const*, int, float* const*, int, int*, int*, int);
int cublasSetMatrix(int, int, int, const void*, int, void*, int);
int cublasGetMatrix(int, int, int, const void*, int, void*, int);
int cublasGetVector(int, int, const void*, int, void*, int);
int cublasGetVersion_v2(void*, int*);

int cublasLtCreate(void**);
int cublasLtDestroy(void*);
int cublasLtMatrixLayoutCreate(void**, int, std::uint64_t, std::uint64_t, std::int64_t);
int cublasLtMatrixLayoutGetAttribute(void*, int, void*, std::size_t, std::size_t*);
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, std::size_t);
int cublasLtMatrixLayoutDestroy(void*);
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescDestroy(void*);
int cublasLtMatmulPreferenceCreate(void**);
int cublasLtMatmulPreferenceDestroy(void*);
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*, int*);
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                   void*, void*, const void*, void*, std::size_t, void*);

int cusolverDnCreate(void**);
int cusolverDnDestroy(void*);
int cusolverDnSgetrf_bufferSize(void*, int, int, float*, int, int*);
int cusolverDnCgesvd_bufferSize(void*, int, int, int*);
int cusolverDnDsyevd_bufferSize(void*, int, int, int, const double*, int, const double*, int*);
int cusolverDnSormqr_bufferSize(void*, int, int, int, int, int, const float*, int, const float*, const float*, int,
                                int*);
int cusolverDnXgeqrf_bufferSize(void*, void*, std::int64_t, std::int64_t, int, const void*, std::int64_t, int,
                                const void*, int, std::size_t*, std::size_t*);
int cusolverDnSgesvd(void*, signed char, signed char, int, int, float*, int, float*, float*, int, float*, int, float*,
                     int, float*, int*);
int cusolverDnSpotrfBatched(void*, int, int, float**, int, int*, int);
int cusolverDnSgesvdaStridedBatched(void*, int, int, int, int, const float*, int, long long, float*, long long, float*,
                                    int, long long, float*, int, long long, float*, int, int*, double*, int);

int cusparseCreate(void**);
int cusparseDestroy(void*);
int cusparseCreateCsr(void**, std::int64_t, std::int64_t, std::int64_t, void*, void*, void*, int, int, int, int);
int cusparseSpMatGetSize(void*, std::int64_t*, std::int64_t*, std::int64_t*);
int cusparseDestroySpMat(void*);
int cusparseSpMM_bufferSize(void*, int, int, const void*, void*, void*, const void*, void*, int, int, std::size_t*);
int cusparseXcsrgeam2Nnz(void*, int, int, void*, int, const int*, const int*, void*, int, const int*, const int*, void*,
                         int*, int*, void*);
int cusparseLtInit(void*);
int cusparseLtStructuredDescriptorInit(const void*, void*, std::int64_t, std::int64_t, std::int64_t, std::uint32_t, int,
                                       int, int);
int cusparseLtSpMMACompressedSize2(const void*, const void*, std::size_t*, std::size_t*);

int cufftCreate(int*);
int cufftPlan1d(int*, int, int, int);
int cufftDestroy(int);
int cufftSetAutoAllocation(int, int);
int cufftXtMakePlanMany(int, int, long long*, long long*, long long, long long, int, long long*, long long, long long,
                        int, long long, std::size_t*, int);
int cufftGetSize(int, std::size_t*);
int cufftXtExec(int, void*, void*, int);

int curandCreateGeneratorHost(void**, int);
int curandDestroyGenerator(void*);
int curandGenerateNormal(void*, float*, std::size_t, float, float);
}

namespace {

/// Device memory that holds `values` ints.
struct DeviceInts {
  explicit DeviceInts(const std::vector<int>& values) : bytes(values.size() * sizeof(int)) {
    REQUIRE_EQ(cudaMalloc(&pointer, bytes), 0);
    REQUIRE_EQ(cudaMemcpy(pointer, values.data(), bytes, 1), 0);
  }
  ~DeviceInts() { cudaFree(pointer); }
  DeviceInts(const DeviceInts&) = delete;
  DeviceInts& operator=(const DeviceInts&) = delete;

  std::vector<int> read() const {
    std::vector<int> values(bytes / sizeof(int), -1);
    REQUIRE_EQ(cudaMemcpy(values.data(), pointer, bytes, 2), 0);
    return values;
  }

  int* data() const { return static_cast<int*>(pointer); }

  void* pointer = nullptr;
  std::size_t bytes;
};

struct Cublas {
  Cublas() { REQUIRE_EQ(cublasCreate_v2(&handle), 0); }
  ~Cublas() { cublasDestroy_v2(handle); }
  void* handle = nullptr;
};

struct Cusolver {
  Cusolver() { REQUIRE_EQ(cusolverDnCreate(&handle), 0); }
  ~Cusolver() { cusolverDnDestroy(handle); }
  void* handle = nullptr;
};

}  // namespace

TEST_SUITE("shadow libraries") {
  TEST_CASE("a cuBLAS handle keeps its settings and refuses what a real one refuses") {
    const Cublas cublas;
    int stream_of_host = 0;  // stands for a stream: never looked into
    void* stream = nullptr;
    CHECK_EQ(cublasSetStream_v2(cublas.handle, &stream_of_host), 0);
    CHECK_EQ(cublasGetStream_v2(cublas.handle, &stream), 0);
    CHECK_EQ(stream, &stream_of_host);
    int mode = -1;
    CHECK_EQ(cublasSetPointerMode_v2(cublas.handle, 1), 0);
    CHECK_EQ(cublasGetPointerMode_v2(cublas.handle, &mode), 0);
    CHECK_EQ(mode, 1);
    int version = 0;
    CHECK_EQ(cublasGetVersion_v2(cublas.handle, &version), 0);
    CHECK_GE(version, 100'000);

    alignas(256) char workspace[512];
    CHECK_EQ(cublasSetWorkspace_v2(cublas.handle, workspace, 256), 0);
    CHECK_EQ(cublasSetWorkspace_v2(cublas.handle, workspace + 1, 256), 7);  // CUBLAS_STATUS_INVALID_VALUE
    CHECK_EQ(cublasCreate_v2(nullptr), 7);
    CHECK_EQ(cublasDestroy_v2(nullptr), 1);  // CUBLAS_STATUS_NOT_INITIALIZED
    CHECK_EQ(cublasSgemm_v2(nullptr, 0, 0, 1, 1, 1, nullptr, nullptr, 1, nullptr, 1, nullptr, nullptr, 1), 1);
  }

  TEST_CASE("a computation is one launch") {
    const Cublas cublas;
    const std::int64_t before = gpuplan_shadow_launches();
    const float one = 1;
    CHECK_EQ(cublasSgemm_v2(cublas.handle, 0, 0, 8, 8, 8, &one, nullptr, 8, nullptr, 8, &one, nullptr, 8), 0);
    CHECK_EQ(gpuplan_shadow_launches(), before + 1);
  }

  TEST_CASE("computations of several threads are all counted") {
    const std::int64_t before = gpuplan_shadow_launches();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        const Cublas cublas;
        for (int call = 0; call < 100; ++call) {
          cublasSgemm_v2(cublas.handle, 0, 0, 1, 1, 1, nullptr, nullptr, 1, nullptr, 1, nullptr, nullptr, 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(gpuplan_shadow_launches(), before + 400);
  }

  TEST_CASE("a scalar result is written where the pointer mode says") {
    const Cublas cublas;
    std::array<float, 3> scalar{7, 7, 7};
    CHECK_EQ(cublasSdot_v2(cublas.handle, 4, nullptr, 1, nullptr, 1, &scalar[1]), 0);
    CHECK_EQ(scalar, std::array<float, 3>{7, 0, 7});
    int index = -1;
    CHECK_EQ(cublasIsamax_v2(cublas.handle, 4, nullptr, 1, &index), 0);
    CHECK_EQ(index, 1);  // counted from 1
    CHECK_EQ(cublasIsamax_v2(cublas.handle, 0, nullptr, 1, &index), 0);
    CHECK_EQ(index, 0);
    std::array<double, 2> norm{7, 7};
    CHECK_EQ(cublasNrm2Ex(cublas.handle, 4, nullptr, 1, 1, norm.data(), 1, 1), 0);  // CUDA_R_64F
    CHECK_EQ(norm, std::array<double, 2>{0, 7});

    cublasSetPointerMode_v2(cublas.handle, 1);
    scalar = {7, 7, 7};
    CHECK_EQ(cublasSdot_v2(cublas.handle, 4, nullptr, 1, nullptr, 1, &scalar[1]), 0);
    CHECK_EQ(scalar[1], 7);
  }

  TEST_CASE("batched factorizations report success on the device and on the host") {
    const Cublas cublas;
    const DeviceInts lu({5, 5, 5}), least_squares({5, 5, 5});
    CHECK_EQ(cublasSgetrfBatched(cublas.handle, 2, nullptr, 2, nullptr, lu.data(), 3), 0);
    CHECK_EQ(lu.read(), std::vector<int>{0, 0, 0});
    CHECK_EQ(least_squares.read(), std::vector<int>{5, 5, 5});
    std::array<int, 2> host{9, 9};
    CHECK_EQ(
        cublasSgelsBatched(cublas.handle, 0, 2, 2, 1, nullptr, 2, nullptr, 2, host.data(), least_squares.data(), 3), 0);
    CHECK_EQ(host, std::array<int, 2>{0, 9});
    CHECK_EQ(least_squares.read(), std::vector<int>{0, 0, 0});
  }

  TEST_CASE("matrices and vectors are really copied") {
    const DeviceInts device(std::vector<int>(12, 9));
    const std::array<int, 6> in{1, 2, 3, 4, 5, 6};  // 2 rows of 3 columns, one after the other
    CHECK_EQ(cublasSetMatrix(2, 3, 4, in.data(), 2, device.pointer, 4), 0);
    std::array<int, 6> out{};
    CHECK_EQ(cublasGetMatrix(2, 3, 4, device.pointer, 4, out.data(), 2), 0);
    CHECK_EQ(out, in);
    std::array<int, 3> firsts{};
    CHECK_EQ(cublasGetVector(3, 4, device.pointer, 4, firsts.data(), 1), 0);
    CHECK_EQ(firsts, std::array<int, 3>{1, 3, 5});
    CHECK_EQ(cublasSetMatrix(2, 3, 0, in.data(), 2, device.pointer, 4), 7);
    constexpr int kMost = 2147483647;
    CHECK_EQ(cublasSetMatrix(kMost, kMost, 16, in.data(), kMost, device.pointer, kMost), 7);
  }

  TEST_CASE("cuBLASLt multiplies with its one algorithm, which needs no workspace") {
    void *handle = nullptr, *layout = nullptr, *multiplication = nullptr, *preference = nullptr;
    REQUIRE_EQ(cublasLtCreate(&handle), 0);
    REQUIRE_EQ(cublasLtMatrixLayoutCreate(&layout, 14, 512, 64, 512), 0);
    REQUIRE_EQ(cublasLtMatmulDescCreate(&multiplication, 68, 0), 0);
    REQUIRE_EQ(cublasLtMatmulPreferenceCreate(&preference), 0);
    std::uint64_t rows = 0;
    CHECK_EQ(cublasLtMatrixLayoutGetAttribute(layout, 2, &rows, sizeof(rows), nullptr), 0);
    CHECK_EQ(rows, 512);
    const int batches = 7;
    int read = 0;
    std::size_t written = 0;
    CHECK_EQ(cublasLtMatrixLayoutSetAttribute(layout, 5, &batches, sizeof(batches)), 0);
    CHECK_EQ(cublasLtMatrixLayoutGetAttribute(layout, 5, &read, sizeof(read), &written), 0);
    CHECK_EQ(read, 7);
    CHECK_EQ(written, sizeof(read));
    CHECK_EQ(cublasLtMatrixLayoutSetAttribute(layout, 64, &batches, sizeof(batches)), 7);

    struct {  // cublasLtMatmulHeuristicResult_t
      std::uint64_t algorithm[8];
      std::size_t workspace_bytes;
      int state;
      float waves;
      int reserved[4];
    } result{};
    result.workspace_bytes = 99;
    int found = 0;
    CHECK_EQ(cublasLtMatmulAlgoGetHeuristic(handle, multiplication, layout, layout, layout, layout, preference, 1,
                                            &result, &found),
             0);
    CHECK_EQ(found, 1);
    CHECK_EQ(result.workspace_bytes, 0);
    CHECK_EQ(result.state, 0);
    const std::int64_t before = gpuplan_shadow_launches();
    CHECK_EQ(cublasLtMatmul(handle, multiplication, nullptr, nullptr, layout, nullptr, layout, nullptr, nullptr, layout,
                            nullptr, layout, result.algorithm, nullptr, 0, nullptr),
             0);
    CHECK_EQ(gpuplan_shadow_launches(), before + 1);
    CHECK_EQ(cublasLtMatmul(handle, multiplication, nullptr, nullptr, nullptr, nullptr, layout, nullptr, nullptr,
                            layout, nullptr, layout, nullptr, nullptr, 0, nullptr),
             7);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(multiplication);
    cublasLtMatrixLayoutDestroy(layout);
    cublasLtDestroy(handle);
  }

  TEST_CASE("a multiplication is recorded with how far each matrix reaches") {
    using namespace gpuplan::shadow::cublaslt;
    void *layout = nullptr, *multiplication = nullptr;
    REQUIRE_EQ(cublasLtMatrixLayoutCreate(&layout, 14, 500, 64, 512), 0);  // bf16 columns of 500, 512 apart
    REQUIRE_EQ(cublasLtMatmulDescCreate(&multiplication, 68, 0), 0);
    Descriptor& matrix = *static_cast<Descriptor*>(layout);
    Descriptor& operation = *static_cast<Descriptor*>(multiplication);
    const void* const at = reinterpret_cast<const void*>(std::uintptr_t{0x7000});
    CHECK_EQ(describe("a", at, matrix), "a 0x7000 500x64 " + std::to_string((63 * 512 + 500) * 2) + " bytes");
    matrix.attributes[5] = 3;       // a batch
    matrix.attributes[6] = 100000;  // so far apart
    CHECK_EQ(describe("a", at, matrix), "a 0x7000 500x64 " + std::to_string((200000 + 63 * 512 + 500) * 2) + " bytes");
    matrix.attributes[1] = 1;  // row-major
    matrix.attributes[4] = 70;
    CHECK_EQ(describe("b", at, matrix), "b 0x7000 500x64 " + std::to_string((200000 + 499 * 70 + 64) * 2) + " bytes");
    matrix.attributes[1] = 2;  // tiled
    CHECK_EQ(describe("b", at, matrix), "b 0x7000 500x64 0 bytes");

    CHECK_EQ(describe_operation(operation, matrix), " op NN");
    operation.attributes[3] = 1;
    operation.attributes[7] = 4;  // CUBLASLT_EPILOGUE_BIAS
    operation.attributes[8] = 0x9000;
    CHECK_EQ(describe_operation(operation, matrix), " op TN bias 0x9000 1000 bytes");
    cublasLtMatmulDescDestroy(multiplication);
    cublasLtMatrixLayoutDestroy(layout);
  }

  TEST_CASE("cuSOLVER's workspaces are LAPACK's smallest") {
    const Cusolver cusolver;
    int size = -1;
    CHECK_EQ(cusolverDnSgetrf_bufferSize(cusolver.handle, 10, 4, nullptr, 10, &size), 0);
    CHECK_EQ(size, 0);
    CHECK_EQ(cusolverDnCgesvd_bufferSize(cusolver.handle, 10, 4, &size), 0);
    CHECK_EQ(size, 2 * 4 + 10);
    CHECK_EQ(cusolverDnDsyevd_bufferSize(cusolver.handle, 1, 0, 10, nullptr, 10, nullptr, &size), 0);
    CHECK_EQ(size, 1 + 6 * 10 + 2 * 100);
    CHECK_EQ(cusolverDnSormqr_bufferSize(cusolver.handle, 1, 0, 10, 4, 3, nullptr, 10, nullptr, nullptr, 10, &size), 0);
    CHECK_EQ(size, 10);  // from the right: the rows of C
    std::size_t device = 9, host = 9;
    CHECK_EQ(
        cusolverDnXgeqrf_bufferSize(cusolver.handle, nullptr, 10, 4, 1, nullptr, 10, 1, nullptr, 1, &device, &host), 0);
    CHECK_EQ(device, 4 * sizeof(double));
    CHECK_EQ(host, 0);
    CHECK_EQ(cusolverDnSgetrf_bufferSize(cusolver.handle, 10, 4, nullptr, 10, nullptr), 3);
    CHECK_EQ(cusolverDnSgetrf_bufferSize(nullptr, 10, 4, nullptr, 10, &size), 1);
  }

  TEST_CASE("cuSOLVER's factorizations report success, wherever the argument lies") {
    const Cusolver cusolver;
    const DeviceInts svd({5}), cholesky({5, 5}), approximate({5, 5, 5});
    CHECK_EQ(cusolverDnSgesvd(cusolver.handle, 'A', 'A', 2, 2, nullptr, 2, nullptr, nullptr, 2, nullptr, 2, nullptr, 0,
                              nullptr, svd.data()),
             0);
    CHECK_EQ(svd.read(), std::vector<int>{0});
    CHECK_EQ(cusolverDnSpotrfBatched(cusolver.handle, 0, 2, nullptr, 2, cholesky.data(), 2), 0);
    CHECK_EQ(cholesky.read(), std::vector<int>{0, 0});
    std::array<double, 4> norms{7, 7, 7, 7};
    CHECK_EQ(cusolverDnSgesvdaStridedBatched(cusolver.handle, 0, 2, 2, 2, nullptr, 2, 4, nullptr, 2, nullptr, 2, 4,
                                             nullptr, 2, 4, nullptr, 0, approximate.data(), norms.data(), 3),
             0);
    CHECK_EQ(approximate.read(), std::vector<int>{0, 0, 0});
    CHECK_EQ(norms, std::array<double, 4>{0, 0, 0, 7});
  }

  TEST_CASE("cuSPARSE's descriptors answer what they describe") {
    void *handle = nullptr, *matrix = nullptr;
    REQUIRE_EQ(cusparseCreate(&handle), 0);
    REQUIRE_EQ(cusparseCreateCsr(&matrix, 30, 20, 7, nullptr, nullptr, nullptr, 2, 2, 0, 0), 0);
    std::int64_t rows = 0, columns = 0, entries = 0;
    CHECK_EQ(cusparseSpMatGetSize(matrix, &rows, &columns, &entries), 0);
    CHECK_EQ(std::array{rows, columns, entries}, std::array<std::int64_t, 3>{30, 20, 7});
    std::size_t buffer = 9;
    CHECK_EQ(cusparseSpMM_bufferSize(handle, 0, 0, nullptr, matrix, nullptr, nullptr, nullptr, 0, 0, &buffer), 0);
    CHECK_EQ(buffer, 0);
    int total = 0;
    CHECK_EQ(cusparseXcsrgeam2Nnz(handle, 3, 3, nullptr, 4, nullptr, nullptr, nullptr, 5, nullptr, nullptr, nullptr,
                                  nullptr, &total, nullptr),
             0);
    CHECK_EQ(total, 9);
    CHECK_EQ(cusparseDestroySpMat(matrix), 0);
    CHECK_EQ(cusparseDestroySpMat(nullptr), 3);
    CHECK_EQ(cusparseDestroy(handle), 0);
  }

  TEST_CASE("a 2:4 sparse matrix takes half of its values and two bits each") {
    alignas(16) std::array<std::byte, 512> handle{}, matrix{};
    std::size_t size = 0, buffer = 9;
    CHECK_EQ(cusparseLtStructuredDescriptorInit(handle.data(), matrix.data(), 128, 64, 64, 16, 2, 1, 0), 1);
    REQUIRE_EQ(cusparseLtInit(handle.data()), 0);
    REQUIRE_EQ(cusparseLtStructuredDescriptorInit(handle.data(), matrix.data(), 128, 64, 64, 16, 2, 1, 0), 0);
    CHECK_EQ(cusparseLtSpMMACompressedSize2(handle.data(), matrix.data(), &size, &buffer), 0);
    CHECK_EQ(size, 128 * 64 / 2 * 2 + 128 * 64 / 8);
    CHECK_EQ(buffer, 0);
  }

  TEST_CASE("a cuFFT plan takes the least workspace, on the device where it is its own") {
    int plan = 0;
    const std::int64_t before = free_bytes(current_device());
    REQUIRE_EQ(cufftPlan1d(&plan, 1 << 18, 0x29, 8), 0);  // CUFFT_C2C
    std::size_t size = 0;
    CHECK_EQ(cufftGetSize(plan, &size), 0);
    CHECK_EQ(size, (std::size_t{1} << 18) * 8 * 8);
    CHECK_EQ(before - free_bytes(current_device()), static_cast<std::int64_t>(size));
    CHECK_EQ(cufftXtExec(plan, nullptr, nullptr, -1), 0);
    CHECK_EQ(cufftDestroy(plan), 0);
    CHECK_EQ(free_bytes(current_device()), before);
    CHECK_EQ(cufftDestroy(plan), 1);              // CUFFT_INVALID_PLAN
    CHECK_EQ(cufftPlan1d(&plan, 0, 0x29, 8), 8);  // CUFFT_INVALID_SIZE
    REQUIRE_EQ(cufftCreate(&plan), 0);
    long long huge[] = {1LL << 40, 1LL << 30};
    CHECK_EQ(cufftXtMakePlanMany(plan, 2, huge, nullptr, 1, 1, 5, nullptr, 1, 1, 5, 3, &size, 5), 8);
    CHECK_EQ(cufftDestroy(plan), 0);

    REQUIRE_EQ(cufftCreate(&plan), 0);
    CHECK_EQ(cufftXtExec(plan, nullptr, nullptr, -1), 1);  // not made yet
    CHECK_EQ(cufftSetAutoAllocation(plan, 0), 0);
    long long lengths[] = {64, 32};
    CHECK_EQ(cufftXtMakePlanMany(plan, 2, lengths, nullptr, 1, 1, 5, nullptr, 1, 1, 5, 3, &size, 5), 0);  // CUDA_C_64F
    CHECK_EQ(size, 64 * 32 * 3 * 16);
    CHECK_EQ(free_bytes(current_device()), before);
    CHECK_EQ(cufftDestroy(plan), 0);
  }

  TEST_CASE("a random generator of the host writes zeros") {
    void* generator = nullptr;
    REQUIRE_EQ(curandCreateGeneratorHost(&generator, 100), 0);
    std::array<float, 3> numbers{7, 7, 7};
    CHECK_EQ(curandGenerateNormal(generator, numbers.data(), 2, 0.0F, 1.0F), 0);
    CHECK_EQ(numbers, std::array<float, 3>{0, 0, 7});
    CHECK_EQ(curandDestroyGenerator(generator), 0);
    CHECK_EQ(curandDestroyGenerator(nullptr), 101);
  }
}

TEST_SUITE("missing functions") {
  TEST_CASE("a name tells the family and its code for what is not supported") {
    CHECK_EQ(cuda_family("cublasLtMatmul"), "cublas");
    CHECK_EQ(cuda_family("cuMemAlloc_v2"), "cu");
    CHECK_EQ(cuda_family("nvshmemx_get_uniqueid"), "nvshmem");
    CHECK_EQ(cuda_family("custom_allocator"), "");
    CHECK_EQ(cuda_family("cudart_version"), "");
    CHECK_EQ(cuda_family("nvrtcCompileProgram"), "");  // NVIDIA's own serves
    CHECK_EQ(not_supported("cublasFoo"), 15);
    CHECK_EQ(not_supported("cudnnFoo"), 3000);
    CHECK_EQ(not_supported("cusolverDnFoo"), 9);
    CHECK_EQ(not_supported("cudaFoo"), 801);
    CHECK_EQ(static_cast<std::int64_t>(not_supported("cuFileRead")), -5007);
    CHECK_EQ(not_supported("nvshmem_malloc"), 0);  // a null pointer
    CHECK_NE(std::string(reinterpret_cast<const char*>(not_supported("cudaFooGetErrorString"))).find("not supported"),
             std::string::npos);
  }

  TEST_CASE("NVIDIA's libraries are known by their names") {
    CHECK(is_cuda_library("libcublas.so.13"));
    CHECK(is_cuda_library("libcudart-9335f6a2.so.12"));
    CHECK(is_cuda_library("libnvidia-ml.so.1"));
    CHECK_FALSE(is_cuda_library("libtorch_cuda.so"));
    CHECK_FALSE(is_cuda_library("libc10_cuda.so"));
    CHECK_FALSE(is_cuda_library(""));
  }

  TEST_CASE("a wheel's version is beside its libraries") {
    const std::filesystem::path root = std::filesystem::temp_directory_path() / "gpuplan_test_missing_wheel";
    std::filesystem::create_directories(root / "torch" / "lib");
    std::ofstream(root / "torch" / "version.py") << "__all__ = ['__version__']\n__version__ = '2.15.0+cu132'\n";
    CHECK_EQ(wheel_of((root / "torch" / "lib" / "libtorch_cuda.so").string()), "torch 2.15.0+cu132");
    CHECK_EQ(wheel_of((root / "elsewhere" / "lib.so").string()), "");
    CHECK_EQ(wheel_of(""), "");
    std::filesystem::remove_all(root);
  }

#if defined(__x86_64__)
  TEST_CASE("a call of a missing function is answered by name, every other call is left alone") {
    void* const library = dlopen(GPUPLAN_SHADOW_CALLER, RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(library != nullptr, dlerror());
    const auto call = [&](const char* name) { return reinterpret_cast<int (*)()>(dlsym(library, name))(); };
    CHECK_EQ(call("call_vendor"), 77);

    check_loaded_libraries();
    check_loaded_libraries();          // nothing new
    CHECK_EQ(call("call_vendor"), 9);  // CUSOLVER_STATUS_NOT_SUPPORTED
    CHECK_EQ(call("call_vendor_by_pointer"), 9);
    CHECK_EQ(call("call_namesake"), 5);
    CHECK_EQ(call("has_weak"), 0);
    const auto text = reinterpret_cast<const char* (*)()>(dlsym(library, "call_text"));
    CHECK_EQ(std::string(text()), "not supported by the gpuplan shadow runtime");

    bool listed = false;
    for (const MissingFunction& missing : missing_functions()) {
      if (missing.function != "cusolverDnOfALaterRelease") continue;
      listed = true;
      CHECK_EQ(missing.text(),
               missing.object + " called cusolverDnOfALaterRelease, which the shadow runtime does not have");
    }
    CHECK(listed);
    dlclose(library);
  }
#endif
}
