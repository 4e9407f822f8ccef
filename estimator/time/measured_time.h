// What a GPU's own measurements (`gpuplan calibrate`, Gpu::measured) say beside the time model. A product takes what
// the model says times what the nearest measured ones took beside what it says of them; without measurements all of
// these are the model's.
#pragma once

#include "estimator/time/operation_time.h"

namespace gpuplan {

/// Of matrix products and convolutions of the same type (and pass and layout): the geometric mean of the four nearest,
/// by the ratios of their sizes, weighted by the inverse square of their distance. 1: none was measured.
double measured_share(const Gemm& gemm, bool tf32, const Processor& processor);
double measured_share(const Convolution& convolution, const Processor& processor);

/// Bytes a second that an operation moves which moves so many.
double achieved_bandwidth(std::int64_t bytes, const Processor& processor);
/// From one kernel to the next beside what they do.
double kernel_seconds(const Processor& processor);
/// From the host's memory, bytes a second; 0: from pinned memory, where no link is known.
double host_bandwidth(std::int64_t bytes, bool pinned, const Processor& processor);

}  // namespace gpuplan
