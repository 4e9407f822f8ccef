// Hugging Face's config.json as a spec.
#pragma once

#include <memory>
#include <string>

#include "estimator/base/error.h"

namespace gpuplan {

/// The spec of the model that transformers builds of `config`. Throws Error, with the place in `config`.
std::shared_ptr<const Source> hugging_face_spec(const Source& config);

/// "bfloat16" or "float16", where the configuration says that its weights are stored so; else "".
std::string half_precision_of(const Source& config);

}  // namespace gpuplan
