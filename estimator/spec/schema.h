// The format for editors.
#pragma once

#include <string>
#include <vector>

namespace gpuplan {

/// JSON Schema (draft 2020-12) of a model spec, for completion and a first check in editors: keys and
/// kinds of values; names, calls and shapes are read_model's business. With `layers`, the names of the
/// layers that exist, `op:` offers them. Ends in a newline.
std::string model_json_schema(const std::vector<std::string>& layers = {});

}  // namespace gpuplan
