// What a synchronisation of the device does to cudaMallocAsync's pools.
#pragma once

namespace gpuplan::shadow {

/// Gives back what each default pool holds above its release threshold.
void trim_memory_pools();

}  // namespace gpuplan::shadow
