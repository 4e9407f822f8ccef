// The LZ4 block format (described in the lz4 project under "LZ4 Block Format"), in which nvcc compressed code until
// CUDA 12.8.
#pragma once

#include <cstddef>
#include <span>

namespace gpuplan::shadow {

/// Unpacks `from` into the whole of `to`. False where `from` is broken or gives another number of bytes.
bool unpack_lz4(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace gpuplan::shadow
