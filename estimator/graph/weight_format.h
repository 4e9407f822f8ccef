// Forms that a model's weights are stored in (--weights).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/base/shape.h"
#include "estimator/spec/run_config.h"

namespace gpuplan {

/// A tensor that the form has beside the numbers themselves.
struct StoredPart {
  std::string_view name;  // of static lifetime
  Shape shape;
  DType dtype = DType::fp32;
};

struct StoredWeight {
  std::int64_t bytes = 0;
  std::vector<StoredPart> parts;
};

/// Whether this parameter of a type of layer may be stored so: matrices of Linear and Conv1D, of int4 and fp8 those of
/// Embedding, too. transformers leaves the model's head as it is (quantizers/base.py, get_modules_to_not_convert).
bool is_stored_in_format(WeightFormat format, std::string_view layer_type, std::string_view parameter,
                         const Shape& shape);

/// int8: one byte, and a scale an output feature (bitsandbytes' Int8Params, CB and SCB). nf4, fp4: two to a byte, a
/// scale every 64 elements and the 16 values (Params4bit and its QuantState); double: scales in 8 bits with a scale
/// every 256 of them, the 256 values and their mean. int4: two to a byte, a scale every 64 elements. fp8: one byte, and
/// a scale an output feature (torchao's float8 weight-only, by row).
StoredWeight stored_weight(WeightFormat format, const Shape& shape, std::int64_t output_features);

/// Bytes of it that transformers counts before it loads a checkpoint (quantized_element_size).
std::int64_t counted_bytes(WeightFormat format, std::int64_t elements);

/// What the numbers of a checkpoint are loaded in: prepare_model_for_kbit_training() makes fp32 of those that are not
/// stored so in a model that was loaded in bf16.
DType loaded_type(const RunConfig& run);

constexpr std::int64_t kBlockOf4bit = 64;     // bitsandbytes' default blocksize
constexpr std::int64_t kBlockOfScales = 256;  // of the scales that are quantized themselves

}  // namespace gpuplan
