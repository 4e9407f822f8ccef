// A kernel's program whose allocations are made on another stream than PyTorch's current one.
#pragma once

#include <cstdint>

namespace gpuplan {

/// An action of a ScratchProgram, before all others: results and allocations of this kernel lie in the pools of the
/// step's second stream, to which they go back. It allocates and frees nothing itself.
constexpr std::int64_t kSideStream = -(std::int64_t{1} << 20);

}  // namespace gpuplan
