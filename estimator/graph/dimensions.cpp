#include "estimator/graph/dimensions.h"

#include <string>

namespace gpuplan {

int wrap_dimension(const LayerBuilder& b, std::string_view argument, std::int64_t dim, int rank) {
  if (dim < -rank || dim >= rank)
    b.fail(
        argument,
        "dimension " + std::to_string(dim) + " is out of range for an input of " + std::to_string(rank) + " dimensions",
        "expected " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

unsigned dimension_mask(const LayerBuilder& b, std::string_view argument, int rank) {
  if (b.is_none(argument)) return (1U << rank) - 1;
  unsigned mask = 0;
  for (const std::int64_t dim : b.integers(argument)) {
    const unsigned bit = 1U << wrap_dimension(b, argument, dim, rank);
    if ((mask & bit) != 0) b.fail(argument, "dimension " + std::to_string(dim) + " is named twice");
    mask |= bit;
  }
  return mask;
}

Shape reduced_shape(const Shape& shape, unsigned mask, bool keep) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if ((mask >> i & 1U) == 0) {
      out.push_back(shape[i]);
    } else if (keep) {
      out.push_back(1);
    }
  }
  return out;
}

}  // namespace gpuplan
