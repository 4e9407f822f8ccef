#include "estimator/operators/slow_convolution.h"

#include <initializer_list>
#include <variant>

#include "estimator/base/integers.h"
#include "estimator/operators/scratch.h"

namespace gpuplan {
namespace {

std::int64_t bytes_of(DType dtype, std::initializer_list<std::int64_t> sizes) {
  std::int64_t bytes = size_of(dtype);
  for (const std::int64_t size : sizes) bytes = checked_mul(bytes, size);
  return bytes;
}

}  // namespace

bool runs_without_cudnn(const Primitive& op, const Gpu& gpu) {
  const auto* const c = std::get_if<Convolution>(&op);
  return c != nullptr && !c->native && !cudnn_convolves(c->dtype, gpu);
}

std::int64_t column_bytes(const Convolution& c) { return bytes_of(c.dtype, {c.c, c.r, c.s, c.p, c.q}); }

std::int64_t most_slow_convolution_bytes(const Convolution& c, const Gpu& gpu) {
  const std::int64_t image = bytes_of(c.dtype, {c.n, c.c, c.h, c.w}), result = bytes_of(c.dtype, {c.n, c.k, c.p, c.q});
  const std::int64_t copies = checked_mul(2, checked_add(image, result));
  return checked_add(checked_add(checked_mul(2, column_bytes(c)), copies), cublas_workspace_bytes(gpu));
}

}  // namespace gpuplan
