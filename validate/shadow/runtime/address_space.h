// Where device memory lies: one large reservation of host address space, of which only pages that a copy has written
// take memory. Addresses are handed out upwards and used again only once the reservation has been gone
// through, as PyTorch's allocator breaks ties between free blocks by address; with --segments driver each device has a
// part of it, in which memory lies as the driver would place it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuplan::shadow {

/// What an address belongs to.
struct DeviceRange {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  int device = -1;       // -1: no such range
  bool managed = false;  // cudaMallocManaged
};

/// Address space of `bytes`, a multiple of 2 MiB, where cudaMalloc() finds room; zero; 0 where there is none left.
/// Charges nothing.
std::uintptr_t place_memory(int device, std::size_t bytes);
/// The same with a window of its own, for what does not come from cudaMalloc().
std::uintptr_t reserve_addresses(int device, std::size_t bytes, bool managed = false);
/// Returns a range of either whole. Absent ranges are answered with false.
bool release_addresses(std::uintptr_t base);
/// Whether `address` lies in the reservation, handed out or not. Cheap: no lock.
bool in_address_space(std::uintptr_t address);
/// The range that holds `address`.
DeviceRange range_of(const void* address);
constexpr std::size_t kGranularity = std::size_t{2} << 20;  // the driver hands out device memory in 2 MiB pages
constexpr std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace gpuplan::shadow
