#include "tools/importers/onnx.h"

namespace gpuplan {

std::shared_ptr<const Source> onnx_spec(const std::string& path) {
  throw Error(path + " is an ONNX model, which gpuplan does not read yet")
      .help("write it in YAML: gpuplan explain layers");
}

}  // namespace gpuplan
