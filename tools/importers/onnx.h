// An ONNX file as a spec.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// The spec of the graph in the file `path`. `set`: values of its dynamic dimensions; those that it uses are taken out.
/// `called`: the file's name where that is another. Throws Error, of the environment where gpuplan was built without
/// ONNX.
std::shared_ptr<const Source> onnx_spec(const std::string& path, std::vector<Variable>& set,
                                        const std::string& called = {});

}  // namespace gpuplan
