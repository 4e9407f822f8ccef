// Quantized storage formats of weights (--weights): their size in inference.
#pragma once

#include <cstdint>
#include <string_view>

#include "estimator/base/shape.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

struct StoredWeight {
  std::int64_t bytes = 0;
  std::int64_t scales = 0;  // fp32 numbers beside it
};

/// Whether the weight of this type of layer is stored so: matrices of Linear, Conv1D and Embedding.
bool is_stored_in_format(std::string_view layer_type, std::string_view parameter, const Shape& shape);

/// int8: one byte, and a scale an output feature (bitsandbytes' Int8Params, CB and SCB). int4: two to a byte, and a
/// scale every 64 elements (bitsandbytes' Params4bit, absmax, without double quantisation). fp8: one byte, and a scale
/// an output feature (torchao's float8 weight-only, by row). Tables and buffers of the kernels that dequantise are not
/// counted.
StoredWeight stored_weight(WeightFormat format, const Shape& shape, std::int64_t output_features);

}  // namespace gpuplan
