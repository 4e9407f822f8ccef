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
//   source: where the figures come from, and when
#pragma once

#include "estimator/device/gpu.h"
#include "estimator/error.h"

namespace gpuplan {

/// The device that `source` describes; its name is the file's without folder and ending. Throws Error at the
/// place that is wrong: an unknown or missing key, a count that is not a whole number above 0.
Gpu read_gpu(const Source& source);

}  // namespace gpuplan
