// Hugging Face's config.json as a spec.
#pragma once

#include <memory>
#include <string>

#include "estimator/base/error.h"

namespace gpuplan {

/// Whether a configuration of quantized weights is one of the model that they were before, which engines store in their
/// own way.
enum class Quantized : unsigned char { refused, as_before };

/// The spec of the model that transformers builds of `config`. Throws Error, with the place in `config`.
std::shared_ptr<const Source> hugging_face_spec(const Source& config, Quantized quantized = Quantized::refused);

/// "awq 4-bit", where the configuration says that its weights are stored so; else "".
std::string quantization_of(const Source& config);

/// "bfloat16" or "float16", where the configuration says that its weights are stored so; else "".
std::string half_precision_of(const Source& config);

}  // namespace gpuplan
