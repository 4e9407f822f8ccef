// configs/gpus/*.yaml -> Gpu. The format:
//
//   title: NVIDIA H200                # required, as all without a remark
//   aliases: [H200, H200-SXM]         # optional
//   architecture: Hopper
//   compute_capability: 9.0
//   sm_count: 132
//   max_threads_per_sm: 2048
//   memory_mib: 143771                # memory.total of nvidia-smi
//   cuda_total_bytes: 150109880320    # optional: totalGlobalMem of cudaGetDeviceProperties
//   context_bytes: 500000000          # optional: CUDA context and library modules of a PyTorch process
//   cuda_name: NVIDIA H200            # optional, as the next four: cudaDeviceProp's name, l2CacheSize,
//   l2_cache_bytes: 62914560          # memoryBusWidth, clockRate and memoryClockRate
//   memory_bus_bits: 6144
//   sm_clock_khz: 1980000
//   memory_clock_khz: 3201000
//   source: where the figures come from, and when
//   measured:                         # optional: how long operations took on one such GPU (gpuplan calibrate)
//     date: 2026-11-21
//     with: gpuplan 0.1.0, CUDA 13.0  # versions
//     launch_ns: 2400                 # from one small kernel to the next, launched one after another
//     copy: [[1048576, 3100]]         # bytes read, as many written, within the device's memory; nanoseconds, as all
//     host_link:                      # bytes across the link to the host, from and to ordinary or page-locked memory
//       to_device_pageable: [[1048576, 130000]]
//       to_device_pinned: [[1048576, 41000]]
//       to_host_pageable: [[1048576, 150000]]
//       to_host_pinned: [[1048576, 40000]]
//     gemm:                           # m, n, k of out[m, n] = x[m, k] w[n, k]^T, as nn.Linear; any of fp32, tf32,
//       fp32: [[1024, 1024, 1024, 51000]]                             # fp16, bf16
//     convolution:                    # ... any of nchw, nhwc, and of forward, backward_data, backward_filter
//       fp32:
//         nchw:                       # n, c, h, w of images, k, r, s of filters, stride and padding in both directions
//           forward: [[32, 64, 56, 56, 64, 3, 3, 1, 1, 190000]]
//
// Rows are sorted by their sizes, and no sizes are there twice.
#pragma once

#include "estimator/base/error.h"
#include "estimator/device/gpu.h"

namespace gpuplan {

/// The device that `source` describes; its name is the file's without folder and ending. Throws Error at the
/// place that is wrong: an unknown or missing key, a count that is not a whole number above 0, a row of a table that is
/// too short, too long or out of order.
Gpu read_gpu(const Source& source);

}  // namespace gpuplan
