// The properties of a GPU on which kernel choices and workspaces depend. Read from configs/gpus/*.yaml; unknown
// properties are absent, never guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/device/datasheet.h"
#include "estimator/device/measurements.h"

namespace gpuplan {

struct Gpu {
  std::string name;                  // "h200": the file's name
  std::string title;                 // "NVIDIA H200"
  std::vector<std::string> aliases;  // as people write them
  std::string architecture;          // "Hopper"
  int capability_major = 8;          // CUDA compute capability
  int capability_minor = 0;
  int sm_count = 108;
  int max_threads_per_sm = 2048;
  std::int64_t memory_bytes = 0;                 // memory.total of nvidia-smi; 0: no limit
  bool memory_assumed = false;                   // of the label on the box, since no reading is published
  std::optional<std::int64_t> cuda_total_bytes;  // totalGlobalMem: what cudaMalloc can hand out at most
  std::optional<std::int64_t> context_bytes;     // CUDA context and library modules, where known
  // As cudaGetDeviceProperties says, for `gpuplan shadow`; an estimate needs none of these.
  std::string cuda_name;  // "Tesla T4"; empty: not known
  std::optional<std::int64_t> l2_cache_bytes;
  std::optional<int> memory_bus_bits, sm_clock_khz, memory_clock_khz;
  std::optional<Datasheet> datasheet;    // what is published
  std::string source;                    // where the figures come from
  std::optional<Measurements> measured;  // on one such GPU; no estimate of memory needs them
};

/// CUDA context and loaded library modules where no figure is known: published readings of PyTorch 2.x with lazy
/// loading lie between 256 and 501 MiB (facts, section 7).
constexpr std::int64_t kAssumedContextBytes = std::int64_t{512} << 20;

/// The same at most: lazy loading comes to what eager loading does once every kernel was called. That took 0.92 GiB in
/// PyTorch 2.1 with CUDA 12.1 on an A100 (stas00/ml-engineering, training/performance), the highest published reading
/// since 2.0 (facts, section 7).
constexpr std::int64_t kMostContextBytes = std::int64_t{943} << 20;

/// What nvidia-smi shows at least of a labelled GiB, with ECC: 0.930 to 1.0001 in 56 GPUs that have both.
constexpr double kLeastShareOfLabel = 0.93;

/// What cudaMalloc can hand out: cuda_total_bytes, or what nvidia-smi shows less 3 % or 763 MiB, whichever is less;
/// that bounds the 23 GPUs with both readings. 0: no limit is known.
std::int64_t usable_bytes(const Gpu& gpu);

/// The device assumed when none is named: an A100-class GPU, without a memory size.
Gpu assumed_gpu();

}  // namespace gpuplan
