// The catalog of all layers. CMakeLists.txt generates the list from the files in this folder.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan {

/// Sorted by name.
Catalog make_catalog();

}  // namespace gpuplan
