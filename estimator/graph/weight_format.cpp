#include "estimator/graph/weight_format.h"

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kInt4Block = 64;  // bitsandbytes' default blocksize

}  // namespace

bool is_stored_in_format(std::string_view layer_type, std::string_view parameter, const Shape& shape) {
  return parameter == "weight" && shape.rank() == 2 &&
         (layer_type == "Linear" || layer_type == "Conv1D" || layer_type == "Embedding");
}

StoredWeight stored_weight(WeightFormat format, const Shape& shape, std::int64_t output_features) {
  const std::int64_t elements = shape.elements();
  switch (format) {
    case WeightFormat::as_computed: break;
    case WeightFormat::int8:
    case WeightFormat::fp8: return {elements, output_features};
    case WeightFormat::int4: return {ceil_div(elements, 2), ceil_div(elements, kInt4Block)};
  }
  return {};
}

}  // namespace gpuplan
