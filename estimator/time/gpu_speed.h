// Interface for the speed of a GPU and its host on the operations of a transformer, modelled or measured.
#pragma once

#include <functional>
#include <optional>

#include "estimator/base/dtype.h"
#include "estimator/device/gpu.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

/// What the host needs to call an operation, seconds; 0: nobody waits for it.
struct HostCalls {
  double product = 0, norm = 0, other = 0;  // of a forward without autograd
  double recording = 1;                     // so many times that with it
  double node = 0, parameter = 0;           // of backward: a node; a gradient to accumulate
};

struct GpuSpeed {
  /// Seconds of `batch` products [m, k] x [k, n] in half precision.
  std::function<double(double batch, double m, double n, double k)> product;
  double bytes_per_second = 0;  // that memory achieves
  double peak_flops = 0;        // a second, of such products
  HostCalls host = {};
  double clock_spread = 0;  // TimeModel's
};

/// By the GPU's measurements where it has some, else by the time model, in `type`. Nothing where the GPU's peaks are
/// not known. `gpu` and `model` must outlive it.
std::optional<GpuSpeed> gpu_speed(const Gpu& gpu, DType type, const TimeModel& model);

}  // namespace gpuplan
