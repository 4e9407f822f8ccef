// The transformers release that is assumed for a PyTorch release. The recordings used transformers 4.56 with
// PyTorch 2.8 and 5.23 with 2.15; the switch is assumed to be at the PyTorch release that was current when
// transformers 5.0 appeared.
#pragma once

#include "estimator/spec/run_config.h"

namespace gpuplan {

constexpr PyTorchVersion kTransformers5 = 209;  // the first release that runs with transformers 5

}  // namespace gpuplan
