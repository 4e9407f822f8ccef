// All layers there are. The list is generated from the files of this folder (CMakeLists.txt).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan {

/// Sorted by name.
Catalog make_catalog();

}  // namespace gpuplan
