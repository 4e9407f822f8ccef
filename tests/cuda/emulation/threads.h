// Grids on the processor: blocks one after another, the threads of a block as fibers that run until they wait for each
// other. Poisons shared memory before each block. What run_grid() refuses ends the launch with an Error that says where
// in the kernel: threads that wait at different barriers, lanes that wait for ended ones, grids that no GPU takes.
#pragma once

#include <cstdint>

namespace gpuplan::emulation {

/// Of all grids so far.
struct GridCounts {
  std::int64_t grids = 0, blocks = 0, threads = 0, waits = 0;
};
const GridCounts& grid_counts();

}  // namespace gpuplan::emulation
