#include "validate/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <array>
#include <string>

#include "validate/cuda/check.h"
#include "validate/cuda/convolutions.h"
#include "validate/cuda/kernels/optimizer.h"
#include "validate/cuda/operation.h"
#include "validate/cuda/optimizers.h"
#include "validate/cuda/products.h"
#include "validate/cuda/recurrences.h"

namespace gpuplan::cuda {
namespace {

std::string version_text(int version, int major_digits, int minor_digits) {
  return std::to_string(version / major_digits) + '.' + std::to_string(version % major_digits / minor_digits);
}

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace

CudaDevice::CudaDevice(int ordinal) : ordinal_(ordinal), segments_(ordinal) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || (status == cudaSuccess && count == 0)) {
    (void)cudaGetLastError();
    fail(status == cudaErrorInsufficientDriver ? "the NVIDIA driver is missing or older than the CUDA runtime needs"
                                               : "there is no NVIDIA GPU");
  }
  check(status, "cudaGetDeviceCount");
  if (ordinal < 0 || ordinal >= count)
    fail("there is no GPU number " + std::to_string(ordinal) + ": the last one is " + std::to_string(count - 1));
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  check(cudaFree(nullptr), "the CUDA context");
  const DeviceMemory with_context = memory();
  context_bytes_ = with_context.total_bytes - with_context.free_bytes;
  launch_.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, ordinal);
  launch_.compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, ordinal) +
                               attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
  check(cudaMalloc(&launch_.partials, kPartialBytes), "cudaMalloc of the kernels' partial sums");
  launch_.partial_bytes = kPartialBytes;
  products_ = std::make_unique<Products>();
  convolutions_ = std::make_unique<Convolutions>();
  recurrences_ = std::make_unique<Recurrences>(convolutions_->handle());
}

CudaDevice::~CudaDevice() {
  (void)cudaDeviceSynchronize();
  for (CUevent_st* mark : marks_) (void)cudaEventDestroy(mark);
  (void)cudaFree(launch_.partials);
}

std::string CudaDevice::refusal(const Kernel& kernel) const {
  const Operation* operation = find_operation(kernel.op);
  if (operation == nullptr) return "there is no CUDA kernel for it";
  return operation->refusal == nullptr ? "" : operation->refusal(kernel);
}

void CudaDevice::run(const Kernel& kernel) {
  const Operation* operation = find_operation(kernel.op);
  if (operation == nullptr) fail("there is no CUDA kernel for it");
  operation->run({launch_, *products_, *convolutions_, *recurrences_, lacks_}, kernel);
}

void CudaDevice::update(const OptimizerConfig& config, std::int64_t step, std::span<const ParameterUpdate> parameters) {
  update_parameters(launch_, config, step, parameters);
}

void CudaDevice::clip_gradients(std::span<const KernelTensor> gradients) { clip_norm(launch_, gradients); }

void CudaDevice::unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) {
  cuda::unscale_gradients(launch_, gradients, values);
}

void CudaDevice::update_scale(const ScalerValues& values) { cuda::update_scale(launch_, values); }

void CudaDevice::fill_bytes(void* address, std::int64_t bytes, unsigned char value) {
  check(cudaMemsetAsync(address, value, static_cast<std::size_t>(bytes), launch_.stream), "cudaMemsetAsync");
}

void CudaDevice::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}

void CudaDevice::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
}

void* CudaDevice::allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  check(status, "cudaMallocHost");
  return memory;
}

void CudaDevice::release_pinned(void* memory) { check(cudaFreeHost(memory), "cudaFreeHost"); }

void CudaDevice::synchronize() { check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

DeviceMemory CudaDevice::memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

DeviceDescription CudaDevice::description() const {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal_), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const int cublas = static_cast<int>(cublasLtGetVersion());
  const int cudnn = static_cast<int>(cudnnGetVersion());
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal_), "cudaDeviceGetPCIBusId");
  DeviceDescription d;
  d.name = properties.name;
  d.compute_major = properties.major;
  d.compute_minor = properties.minor;
  d.sm_count = properties.multiProcessorCount;
  d.max_threads_per_sm = properties.maxThreadsPerMultiProcessor;
  d.l2_cache_bytes = properties.l2CacheSize;
  d.memory_bus_bits = properties.memoryBusWidth;
  d.sm_clock_khz = attribute(cudaDevAttrClockRate, ordinal_);  // not in cudaDeviceProp any more
  d.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, ordinal_);
  // 13000 is CUDA 13.0, 130100 cuBLAS 13.1, 91300 cuDNN 9.13.
  d.versions = "a driver for CUDA " + version_text(driver, 1000, 10) + ", CUDA " + version_text(runtime, 1000, 10) +
               ", cuBLAS " + version_text(cublas, 10000, 100) + ", cuDNN " + version_text(cudnn, 10000, 100);
  d.pci_bus_id = bus.data();
  d.context_bytes = context_bytes_;
  return d;
}

std::vector<std::string> CudaDevice::remarks() const {
  std::vector<std::string> sentences;
  for (const auto& [what, lack] : lacks_)
    sentences.push_back(what + ", " + std::to_string(lack.bytes) + " bytes at most, in " + lack.layer);
  return sentences;
}

int CudaDevice::mark() {
  if (used_marks_ == marks_.size()) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "cudaEventCreate");
    marks_.push_back(event);
  }
  check(cudaEventRecord(marks_[used_marks_], launch_.stream), "cudaEventRecord");
  return static_cast<int>(used_marks_++);
}

void CudaDevice::release_all() {
  synchronize();
  convolutions_->release_own();
  segments_.release_all();
}

double CudaDevice::milliseconds(int from, int to) {
  float time = 0;
  check(cudaEventElapsedTime(&time, marks_.at(static_cast<std::size_t>(from)), marks_.at(static_cast<std::size_t>(to))),
        "cudaEventElapsedTime");
  return static_cast<double>(time);
}

}  // namespace gpuplan::cuda
