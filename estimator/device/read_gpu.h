// configs/gpus/*.yaml -> Gpu. The format:
//
//   title: NVIDIA H200                # required, as all without a remark
//   aliases: [H200, H200-SXM]         # optional
//   architecture: Hopper
//   compute_capability: 9.0
//   sm_count: 132
//   max_threads_per_sm: 2048
//   memory_mib: 143771                # memory.total of nvidia-smi
//   cuda_total_bytes: 150109945856    # optional: totalGlobalMem of cudaGetDeviceProperties
//   context_bytes: 500000000          # optional: CUDA context and library modules of a PyTorch process
//   cuda_name: NVIDIA H200            # optional, as the next four: cudaDeviceProp's name, l2CacheSize,
//   l2_cache_bytes: 52428800          # memoryBusWidth, clockRate and memoryClockRate
//   memory_bus_bits: 6144
//   sm_clock_khz: 1980000
//   memory_clock_khz: 3201000
//   source: where the figures come from, and when
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/error.h"

namespace gpuplan {

/// The device that `source` describes; its name is the file's without folder and ending. Throws Error at the
/// place that is wrong: an unknown or missing key, a count that is not a whole number above 0.
Gpu read_gpu(const Source& source);

}  // namespace gpuplan
