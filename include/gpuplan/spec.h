// What to plan: a model of the zoo, a file, or the text of a spec.
#pragma once

#include <string>

namespace gpuplan::v0 {

struct Spec {
  std::string name;  // "zoo:resnet50", the path of a spec, of Hugging Face's config.json or of an ONNX file
  std::string text;  // a spec's YAML; `name` is then what errors call it, and what `extends:` is relative to
};

}  // namespace gpuplan::v0
