#include "estimator/time/gpu_speed.h"

#include <cmath>
#include <memory>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/time/operation_time.h"

namespace gpuplan {
namespace {

// A size of a product, which whoever asks has made of several.
std::int64_t whole(double size) {
  if (!(size < 9e18)) throw Error("a size overflows: the product does not fit in 64 bits");
  return std::llround(size);
}

// Each factor and the result once.
Work work_of_product(const Gemm& g) {
  Work work;
  work.dtype = g.dtype;
  work.product_flops = checked_mul(checked_mul(2 * g.batch, g.m), checked_mul(g.n, g.k));
  const std::int64_t elements =
      checked_add(checked_add(checked_mul(g.m, g.k), checked_mul(g.k, g.n)), checked_mul(g.m, g.n));
  work.bytes = checked_mul(checked_mul(size_of(g.dtype), g.batch), elements);
  const std::int64_t aligned = 16 / size_of(g.dtype);
  work.aligned = g.k % aligned == 0 && g.n % aligned == 0;
  return work;
}

}  // namespace

std::optional<GpuSpeed> gpu_speed(const Gpu& gpu, DType type, const TimeModel& model) {
  if (!rated_peaks(gpu).known()) return std::nullopt;
  const auto on = std::make_shared<const Processor>(make_processor(gpu, model));
  GpuSpeed speed;
  speed.product = [on, type](double batch, double m, double n, double k) {
    Gemm gemm;
    gemm.batch = whole(batch);
    gemm.m = whole(m);
    gemm.n = whole(n);
    gemm.k = whole(k);
    gemm.dtype = type;
    return operation_time(gemm, work_of_product(gemm), *on).seconds;
  };
  speed.bytes_per_second = on->achieved_bytes();
  speed.peak_flops = product_rate(type, false, *on).flops;
  speed.host = {model.host_product,   model.host_norm,     model.host_other,
                model.host_recording, model.host_backward, model.host_parameter};
  speed.clock_spread = model.clock_spread;
  return speed;
}

}  // namespace gpuplan
