#include "estimator/device/gpu.h"

#include <algorithm>

namespace gpuplan {

std::int64_t usable_bytes(const Gpu& gpu) {
  constexpr std::int64_t kMostKept = std::int64_t{763} << 20;
  if (gpu.cuda_total_bytes) return *gpu.cuda_total_bytes;
  return gpu.memory_bytes - std::min(gpu.memory_bytes / 100 * 3, kMostKept);
}

Gpu assumed_gpu() {
  Gpu g;
  g.name = "a100-class";
  g.title = "an A100-class GPU";
  g.architecture = "Ampere";
  g.source = "the device that is assumed when no GPU is named";
  return g;
}

}  // namespace gpuplan
