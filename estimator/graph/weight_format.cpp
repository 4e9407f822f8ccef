#include "estimator/graph/weight_format.h"

#include "estimator/base/integers.h"

namespace gpuplan {

bool is_stored_in_format(WeightFormat format, std::string_view layer_type, std::string_view parameter,
                         const Shape& shape) {
  const bool matrix = layer_type == "Linear" || layer_type == "Conv1D";
  return parameter == "weight" && shape.rank() == 2 &&
         (matrix || (layer_type == "Embedding" && !is_bitsandbytes(format)));
}

StoredWeight stored_weight(WeightFormat format, const Shape& shape, std::int64_t output_features) {
  const std::int64_t elements = shape.elements();
  const std::int64_t blocks = ceil_div(elements, kBlockOf4bit);
  switch (format) {
    case WeightFormat::as_computed: break;
    case WeightFormat::int8: return {elements, {{"SCB", {output_features}}}};
    case WeightFormat::fp8: return {elements, {{"weight_scale", {output_features}}}};
    case WeightFormat::int4: return {ceil_div(elements, 2), {{"weight_scale", {blocks}}}};
    case WeightFormat::nf4:
    case WeightFormat::fp4: return {(elements + 1) / 2, {{"weight.absmax", {blocks}}, {"weight.quant_map", {16}}}};
    case WeightFormat::nf4_double:
    case WeightFormat::fp4_double:
      return {(elements + 1) / 2,
              {{"weight.quant_map", {16}},
               {"weight.nested_offset", {}},
               {"weight.nested_absmax", {ceil_div(blocks, kBlockOfScales)}},
               {"weight.absmax", {blocks}, DType::uint8},
               {"weight.nested_quant_map", {256}}}};
  }
  return {};
}

std::int64_t counted_bytes(WeightFormat format, std::int64_t elements) {
  return is_bitsandbytes_4bit(format) ? elements / 2 : elements;
}

DType loaded_type(const RunConfig& run) {
  const bool cast = is_bitsandbytes(run.weights) && run.in_training() && run.precision == DType::fp32;
  return cast ? DType::bf16 : run.precision;
}

}  // namespace gpuplan
