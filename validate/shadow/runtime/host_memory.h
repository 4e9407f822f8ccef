// Page-locked host memory.
#pragma once

namespace gpuplan::shadow {

/// Whether `pointer` lies in memory of cudaHostAlloc or cudaHostRegister.
bool is_pinned(const void* pointer);

}  // namespace gpuplan::shadow
