// How many blocks of a kernel a multiprocessor holds, by the rules of NVIDIA's occupancy calculator.
#pragma once

#include <cstddef>

#include "validate/shadow/runtime/cubin.h"
#include "validate/shadow/session.h"

namespace gpuplan::shadow {

/// Resident blocks of `threads` threads and `dynamic_shared` bytes; 0 where not even one fits.
int resident_blocks(const KernelResources& kernel, const GpuDescription& gpu, int threads, std::size_t dynamic_shared);

/// The largest block that the kernel's registers and __launch_bounds__ allow.
int largest_block(const KernelResources& kernel);

}  // namespace gpuplan::shadow
