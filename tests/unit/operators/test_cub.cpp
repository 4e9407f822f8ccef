// cub's temporaries against PyTorch: what torch.cumsum, torch.sort and index_put allocated beside their results,
// recorded with PyTorch's own CUDA code for an H200, A100 and T4 (2.15) and an H200 (2.8).
#include <doctest/doctest.h>

#include "estimator/operators/cub.h"

namespace gpuplan {
namespace {

Gpu gpu_with(int major, int minor) {
  Gpu gpu;
  gpu.capability_major = major;
  gpu.capability_minor = minor;
  return gpu;
}

TEST_CASE("a scan of one row of int64 keeps a state a tile") {
  CHECK(cub_scan_bytes(128, kCubScanTile, 215) == 1279);
  CHECK(cub_scan_bytes(8192, kCubScanTile, 215) == 1279);
  CHECK(cub_scan_bytes(32768, kCubScanTile, 215) == 1791);
  CHECK(cub_scan_bytes(131072, kCubScanTile, 215) == 3583);
}

TEST_CASE("a scan asks for an alignment less in PyTorch 2.8") {
  CHECK(cub_scan_bytes(2048, kCubScanTile, 208) == 1023);
  CHECK(cub_scan_bytes(131072, kCubScanTile, 208) == 3327);
}

TEST_CASE("a scan of int32 keeps half the state a tile") {
  CHECK(cub_scan_bytes(8, kCubScanTile, 215, kCubScanState / 2) == 1023);
  CHECK(cub_scan_bytes(8, kCubScanTile, 208, kCubScanState / 2) == 767);
}

TEST_CASE("torch.sort of int64 takes eight passes over tiles of the architecture's size") {
  CHECK(cub_sort_bytes(8192, gpu_with(9, 0)) == 150'015);
  CHECK(cub_sort_bytes(32768, gpu_with(9, 0)) == 549'375);
  CHECK(cub_sort_bytes(262144, gpu_with(9, 0)) == 4'269'567);
  CHECK(cub_sort_bytes(8192, gpu_with(8, 0)) == 151'039);
  CHECK(cub_sort_bytes(32768, gpu_with(7, 5)) == 553'471);
}

TEST_CASE("indices are sorted by the bits that row numbers have") {
  CHECK(cub_sort_bytes(4096, 4096, gpu_with(9, 0), 215) == 71'167);
  CHECK(cub_sort_bytes(32768, 32768, gpu_with(9, 0), 215) == 537'087);
  CHECK(cub_sort_bytes(131072, 131072, gpu_with(9, 0), 215) == 2'133'503);
}

}  // namespace
}  // namespace gpuplan
