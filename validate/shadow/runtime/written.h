// Which device memory has known contents. Kernels do nothing, so all that they should have written reads as zero; what
// the host copied in is kept and read back until something that can have written there has run: a copy, or a kernel
// with an address of the block among its arguments. So a tensor that is given the address of an earlier one never shows
// that one's bytes, whatever has been copied there before.
//
// Kernels that read are taken to write, too. Library calls (cuBLAS, cuDNN) and kernels whose arguments cannot be read
// (PTX alone, no libzstd) are given no addresses: after one, only what is read exactly as it was copied in is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpuplan::shadow {

/// The host (or a copy of known bytes) wrote [address, address + bytes). Returns the write's number. `watched`: where a
/// launch makes it unknown, its address is kept for lost_writes().
std::uint64_t remember_written(const void* address, std::size_t bytes, bool watched = false);
/// The watched writes that launches of this thread have made unknown since the last call.
std::vector<std::uintptr_t> lost_writes();
/// Whether there are any. Cheap.
bool has_lost_writes();
/// Whether write number `write`, which began at `address`, is still what lies there.
bool holds_write(const void* address, std::uint64_t write);
/// [address, address + bytes) reads as zero from now on.
void forget_written(const void* address, std::size_t bytes);
/// Work that can write at each of these addresses has run. What else of a block it can reach is told by PyTorch's
/// granularity: bytes up to the next multiple of 512 belong to the same block.
void forget_touched(std::span<const std::uintptr_t> addresses);
/// Work that may have written anywhere has run.
void forget_parts();
/// Whether [address, address + bytes) is to be read as it lies.
bool is_known(const void* address, std::size_t bytes);

}  // namespace gpuplan::shadow
