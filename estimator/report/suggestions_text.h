// What a screen says of the changes that make a step fit.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "estimator/report/text_style.h"
#include "estimator/search/suggestions.h"

namespace gpuplan {

/// A heading and a line for each, beginning with an empty line; "" where there are none. `usable_bytes`: of the device
/// that it does not fit.
std::string suggestions_text(std::span<const Suggestion> suggestions, std::int64_t usable_bytes,
                             const TextStyle& style);

}  // namespace gpuplan
