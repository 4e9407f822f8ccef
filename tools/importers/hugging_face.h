// Hugging Face's config.json as a spec.
#pragma once

#include <memory>

#include "estimator/error.h"

namespace gpuplan {

/// The spec of the model that transformers builds of `config`. Throws Error, with the place in `config`.
std::shared_ptr<const Source> hugging_face_spec(const Source& config);

}  // namespace gpuplan
