// Arguments of layers that name dimensions, as torch reads them: negative ones count from the end.
#pragma once

#include <cstdint>
#include <string_view>

#include "estimator/graph/layer.h"

namespace gpuplan {

/// `dim` as an index in [0, rank). Throws Error at `argument` when it is out of [-rank, rank).
int wrap_dimension(const LayerBuilder& b, std::string_view argument, std::int64_t dim, int rank);
/// The dimensions that `argument` lists, bit i for dimension i; all of them when it is None. Throws Error when one is
/// out of range or named twice.
unsigned dimension_mask(const LayerBuilder& b, std::string_view argument, int rank);
/// `shape` with its dimensions in `mask` reduced: of size 1 when kept, else gone.
Shape reduced_shape(const Shape& shape, unsigned mask, bool keep);

}  // namespace gpuplan
