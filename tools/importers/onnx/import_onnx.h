// An ONNX file as the text of a spec.
#pragma once

#include <string>
#include <vector>

#include "estimator/spec/model.h"

namespace gpuplan {

/// The spec of the graph in the file `path`. `set`: values of dynamic dimensions other than the batch; the ones that
/// are used are taken out of it. `called`: the file's name where that is another. Throws Error: the file is malformed,
/// or has operators that no layer computes.
std::string import_onnx(const std::string& path, std::vector<Variable>& set, const std::string& called = {});

}  // namespace gpuplan
