// An ONNX file as a spec.
#pragma once

#include <memory>
#include <string>

#include "estimator/error.h"

namespace gpuplan {

/// The spec of the graph in the file `path`. Throws Error.
std::shared_ptr<const Source> onnx_spec(const std::string& path);

}  // namespace gpuplan
