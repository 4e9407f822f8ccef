#include "estimator/graph/graph.h"

namespace gpuplan {

std::string_view name_of(Category category) {
  switch (category) {
    case Category::parameters: return "parameters";
    case Category::buffers: return "buffers";
    case Category::gradients: return "gradients";
    case Category::optimizer_state: return "optimizer_state";
    case Category::inputs: return "inputs";
    case Category::activations: return "activations";
    case Category::activation_gradients: return "activation_gradients";
    case Category::scratch: return "scratch";
  }
  return "?";
}

}  // namespace gpuplan
