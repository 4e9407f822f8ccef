#include "estimator/base/integers.h"

#include "estimator/base/error.h"

namespace gpuplan {

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw Error("a size overflows: the product does not fit in 64 bits");
  return r;
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw Error("a size overflows: the sum does not fit in 64 bits");
  return r;
}

std::int64_t checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) product = checked_mul(product, factor);
  return product;
}

}  // namespace gpuplan
