#include "estimator/distributed/shard_sizes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "estimator/base/integers.h"

namespace gpuplan {

std::int64_t padded_rows(std::int64_t rows, std::int64_t ranks) { return (rows + ranks - 1) / ranks; }

std::int64_t rows_of_rank(std::int64_t rows, std::int64_t ranks, std::int64_t rank) {
  const std::int64_t each = padded_rows(rows, ranks);
  return std::clamp<std::int64_t>(rows - rank * each, 0, each);
}

Shape shard_of(const Shape& shape, std::int64_t ranks, std::int64_t rank) {
  if (shape.rank() == 0) return Shape{rows_of_rank(1, ranks, rank)};
  Shape shard = shape;
  shard.set(0, rows_of_rank(shape[0], ranks, rank));
  return shard;
}

std::int64_t padded_shard_elements(const Shape& shape, std::int64_t ranks) {
  if (shape.rank() == 0) return 1;
  return padded_rows(shape[0], ranks) * shape.elements(1, shape.rank());
}

std::int64_t flat_partition(std::int64_t elements, std::int64_t ranks, std::int64_t alignment) {
  return round_up(elements, checked_mul(ranks, alignment)) / ranks;
}

std::vector<std::int32_t> parameters_of_rank(std::span<const std::int64_t> elements, std::int64_t ranks,
                                             std::int64_t rank) {
  std::vector<std::int32_t> order(elements.size());
  std::iota(order.begin(), order.end(), 0);
  const auto size = [&](std::int32_t i) { return elements[static_cast<std::size_t>(i)]; };
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return size(a) > size(b); });
  std::vector<std::int64_t> owned(static_cast<std::size_t>(ranks), 0);
  std::vector<std::int32_t> own;
  for (const std::int32_t i : order) {
    const auto least = std::ranges::min_element(owned);
    if (least - owned.begin() == rank) own.push_back(i);
    *least += size(i);
  }
  return own;
}

}  // namespace gpuplan
