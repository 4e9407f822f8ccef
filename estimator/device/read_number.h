// Numbers of a GPU file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "estimator/spec/yaml.h"

namespace gpuplan {

/// All of `text` as a decimal number; nothing when it is anything else or does not fit.
std::optional<std::int64_t> decimal(std::string_view text);

/// The node's number, from `least` to `largest`. Throws Error, at the node, for anything else; `what` names it.
std::int64_t whole_number_of(const YamlNode& node, std::string_view what, std::int64_t least, std::int64_t largest);

/// The node's number, above 0 and at most 1e15. Throws Error, at the node, for anything else.
double positive_number_of(const YamlNode& node, std::string_view what);

}  // namespace gpuplan
