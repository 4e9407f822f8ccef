#include "estimator/base/shape.h"

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {

Shape::Shape(std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t s : sizes) push_back(s);
}

Shape::Shape(std::span<const std::int64_t> sizes) {
  for (const std::int64_t s : sizes) push_back(s);
}

void Shape::push_back(std::int64_t size) {
  if (rank_ == kMaxRank) throw Error("a tensor has more than 8 dimensions");
  sizes_[static_cast<std::size_t>(rank_++)] = size;
}

std::int64_t Shape::elements() const { return elements(0, rank_); }

std::int64_t Shape::elements(int from, int to) const {
  std::int64_t n = 1;
  for (int i = from; i < to; ++i) {
    const std::int64_t size = sizes_[static_cast<std::size_t>(i)];
    std::int64_t product;
    if (__builtin_mul_overflow(n, size, &product)) return checked_mul(n, size);  // throws
    n = product;
  }
  return n;
}

bool Shape::operator==(const Shape& o) const { return std::ranges::equal(sizes(), o.sizes()); }

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace gpuplan
