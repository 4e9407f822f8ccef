#include "validate/cuda/segments.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "validate/cuda/check.h"

namespace gpuplan::cuda {
namespace {

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the allocator counts in addresses
}

void check_driver(CUresult status, const char* call) {
  if (status != CUDA_SUCCESS) fail(std::string(call) + ": driver error " + std::to_string(static_cast<int>(status)));
}

template <class F>
void find(F& function, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  constexpr unsigned kVersion = 12000;  // the interface of CUDA 12, which 13 has too
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    (void)cudaGetLastError();
    fail(std::string("expandable segments need ") + name + ", which this driver does not have");
  }
  function = reinterpret_cast<F>(found);
}

}  // namespace

PageFunctions PageFunctions::of_the_driver() {
  PageFunctions f;
  find(f.reserve, "cuMemAddressReserve");
  find(f.free_range, "cuMemAddressFree");
  find(f.create, "cuMemCreate");
  find(f.release, "cuMemRelease");
  find(f.map, "cuMemMap");
  find(f.unmap, "cuMemUnmap");
  find(f.set_access, "cuMemSetAccess");
  find(f.granularity, "cuMemGetAllocationGranularity");
  return f;
}

void Segments::release_all() {
  for (const auto& [address, bytes] : segments_) (void)cudaFree(pointer(address));
  for (const auto& [address, handle] : pages_) {
    (void)driver_.unmap(address, page_);
    (void)driver_.release(handle);
  }
  for (const auto& [address, bytes] : ranges_) (void)driver_.free_range(address, static_cast<std::size_t>(bytes));
  segments_.clear();
  pages_.clear();
  ranges_.clear();
}

std::uint64_t Segments::allocate(std::int64_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return 0;
  }
  check(status, "cudaMalloc");
  const auto address = reinterpret_cast<std::uint64_t>(data);
  segments_[address] = bytes;
  return address;
}

void Segments::release(std::uint64_t address) {
  segments_.erase(address);
  check(cudaFree(pointer(address)), "cudaFree");
}

CUmemAllocationProp Segments::properties() const {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = ordinal_;
  return p;
}

std::uint64_t Segments::reserve(std::int64_t bytes) {
  if (page_ == 0) {
    driver_ = PageFunctions::of_the_driver();
    const CUmemAllocationProp p = properties();
    check_driver(driver_.granularity(&page_, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "cuMemGetAllocationGranularity");
  }
  CUdeviceptr address = 0;
  check_driver(driver_.reserve(&address, static_cast<std::size_t>(bytes), 0, 0, 0), "cuMemAddressReserve");
  ranges_[address] = bytes;
  return address;
}

// Pages are the driver's smallest, whatever the caller counts in: any of them can be unmapped alone.
bool Segments::map(std::uint64_t address, std::int64_t bytes) {
  const CUmemAllocationProp p = properties();
  const std::uint64_t end = address + static_cast<std::uint64_t>(bytes);
  for (std::uint64_t at = address; at < end; at += page_) {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult status = driver_.create(&handle, page_, &p, 0);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
      unmap(address, static_cast<std::int64_t>(at - address));
      return false;
    }
    check_driver(status, "cuMemCreate");
    pages_[at] = handle;
    check_driver(driver_.map(at, page_, 0, handle, 0), "cuMemMap");
  }
  CUmemAccessDesc access{};
  access.location = p.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  check_driver(driver_.set_access(address, static_cast<std::size_t>(bytes), &access, 1), "cuMemSetAccess");
  return true;
}

void Segments::unmap(std::uint64_t address, std::int64_t bytes) {
  if (bytes == 0) return;
  // cudaFree() waits for the kernels that use what it frees; unmapping does not.
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_driver(driver_.unmap(address, static_cast<std::size_t>(bytes)), "cuMemUnmap");
  const auto first = pages_.lower_bound(address);
  const auto last = pages_.lower_bound(address + static_cast<std::uint64_t>(bytes));
  std::for_each(first, last, [&](const auto& page) { check_driver(driver_.release(page.second), "cuMemRelease"); });
  pages_.erase(first, last);
}

}  // namespace gpuplan::cuda
