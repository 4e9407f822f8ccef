// Corrects the time model by a GPU's own measurements (`gpuplan calibrate`, Gpu::measured). The modelled time of a
// matrix product is multiplied by the ratio of measured to modelled time of the nearest measured products; without
// measurements the modelled time is used.
#pragma once

#include "estimator/time/operation_time.h"

namespace gpuplan {

/// Of matrix products and convolutions of the same type (and pass and layout): the geometric mean of the four nearest,
/// by the ratios of their sizes, weighted by the inverse square of their distance. 1: none was measured.
double measured_share(const Gemm& gemm, bool tf32, const Processor& processor);
double measured_share(const Convolution& convolution, const Processor& processor);

/// Achieved bytes per second of an operation that moves `bytes`.
double achieved_bandwidth(std::int64_t bytes, const Processor& processor);
/// Overhead between two consecutive kernels.
double kernel_seconds(const Processor& processor);
/// From the host's memory, bytes a second; 0: from pinned memory, where no link is known.
double host_bandwidth(std::int64_t bytes, bool pinned, const Processor& processor);

}  // namespace gpuplan
