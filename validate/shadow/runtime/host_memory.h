// Page-locked host memory.
#pragma once

namespace gpuplan::shadow {

/// The device that was current when `pointer`'s memory came into being, by cudaHostAlloc or cudaHostRegister, which
/// CUDA names as its device; -1: the pointer lies in no such memory.
int device_of_pinned(const void* pointer);
/// Whether it lies there.
inline bool is_pinned(const void* pointer) { return device_of_pinned(pointer) >= 0; }

}  // namespace gpuplan::shadow
