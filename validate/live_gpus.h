// The GPUs of this machine, as NVIDIA's management library lists them: what nvidia-smi shows. It comes with the driver
// and is loaded when it is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuplan {

struct LiveGpu {
  unsigned index = 0;             // NVML's; of a MIG slice, of the GPU that it is of
  std::optional<unsigned> slice;  // its number, where it is a MIG slice, which follows its GPU
  std::string uuid;               // "GPU-...", "MIG-..."; "" where NVML does not say
  std::string name;               // "Tesla T4"; "" where NVML does not say, since the GPU is lost or another user's
  std::int64_t total_bytes = 0, free_bytes = 0;  // 0: it does not say
  bool mig = false;                              // a process gets a slice of it only
  unsigned slices = 0;                           // how many of those follow
};

/// With their MIG slices, where the driver lists them. In NVML's order, which is that of the PCI bus and not always
/// CUDA's. Throws Error (environment) where libnvidia-ml.so.1 is missing, cannot start, or knows no GPU.
std::vector<LiveGpu> live_gpus();

}  // namespace gpuplan
