// Segments of the caching allocator on a GPU: cudaMalloc, and pages mapped into a reserved range for expandable ones.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace gpuplan::cuda {

/// The driver's functions for mapping pages. They are looked up in the driver that is loaded, so that the module needs
/// no libcuda when it is linked.
struct PageFunctions {
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free_range = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;

  /// Throws Error where the driver lacks one of them.
  static PageFunctions of_the_driver();
};

class Segments {
 public:
  explicit Segments(int ordinal) : ordinal_(ordinal) {}
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;
  ~Segments() { release_all(); }

  /// 0 where there is no room; throws Error for any other failure.
  std::uint64_t allocate(std::int64_t bytes);
  void release(std::uint64_t address);
  /// Throws Error where the driver cannot map pages.
  std::uint64_t reserve(std::int64_t bytes);
  bool map(std::uint64_t address, std::int64_t bytes);
  void unmap(std::uint64_t address, std::int64_t bytes);
  void release_all();

 private:
  CUmemAllocationProp properties() const;

  int ordinal_;
  std::map<std::uint64_t, std::int64_t> segments_, ranges_;
  std::map<std::uint64_t, CUmemGenericAllocationHandle> pages_;  // of page_ bytes each, by address
  PageFunctions driver_;
  std::size_t page_ = 0;
};

}  // namespace gpuplan::cuda
