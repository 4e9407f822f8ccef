// The order of Module.parameters().
#pragma once

#include <span>
#include <vector>

#include "estimator/graph/graph.h"

namespace gpuplan {

/// Parameters in the order that PyTorch lists them: what a module owns itself comes before its submodules
/// (torch/nn/modules/module.py, _named_members), wherever in the code it is read.
std::vector<ParameterTensor> in_module_order(std::vector<ParameterTensor> parameters, std::span<const Layer> layers);

}  // namespace gpuplan
