// Which device memory has known contents. Kernels do nothing, so all that they should have written reads as zero; what
// the host copied in is kept and read back. Allocators use the same address for one tensor after another, so that an
// old copy must not show through a newer tensor that only kernels have written (GradScaler would take yesterday's
// labels for an infinity): bytes are known when exactly them were copied in, as one piece or several, or when no kernel
// has run since.
#pragma once

#include <cstddef>

namespace gpuplan::shadow {

/// The host (or a copy of known bytes) wrote [address, address + bytes).
void remember_written(const void* address, std::size_t bytes);
/// [address, address + bytes) reads as zero from now on.
void forget_written(const void* address, std::size_t bytes);
/// Whether [address, address + bytes) is to be read as it lies.
bool is_known(const void* address, std::size_t bytes);

}  // namespace gpuplan::shadow
