// What cub's device-wide algorithms ask for as temporary storage (cub/device/dispatch/): it follows from the size of a
// tile, the elements a block works on, which is tuned per compute capability. Tile sizes are read off recordings of
// PyTorch 2.8 and 2.15 (tests/recorders/embedding_backward.py). All sizes in bytes.
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// PyTorch 2.15's rules were recorded, 2.8's too; what changed in between is assumed to have come with 2.9.
constexpr bool is_recent_cub(PyTorchVersion pytorch) { return pytorch >= 209; }

/// DeviceRadixSort::SortPairs of n int64 keys below `largest_key` and as many int64 values, where one block cannot
/// sort them all.
std::int64_t cub_sort_bytes(std::int64_t n, std::int64_t largest_key, const Gpu& gpu, PyTorchVersion pytorch);
/// The same of any int64 keys, as torch.sort has.
std::int64_t cub_sort_bytes(std::int64_t n, const Gpu& gpu);

constexpr std::int64_t kCubScanTile = 896;  // of 8-byte elements
constexpr std::int64_t kCubScanState = 16;  // bytes a tile, of 8-byte elements; 8 of 4-byte ones

/// A decoupled look-back scan of n elements.
std::int64_t cub_scan_bytes(std::int64_t n, std::int64_t tile, PyTorchVersion pytorch,
                            std::int64_t state_bytes = kCubScanState);

}  // namespace gpuplan
