// torch.linalg.vector_norm(x, 2, dim) with its autograd node.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// Over the dimensions in `mask`. Under autocast in fp32, of x in its own type. Saves x and the norms; backward is
/// grad * (x / norm).masked_fill_(norm == 0, 0) (norm_backward of p = 2).
TensorId vector_norm(LayerBuilder& b, TensorId x, unsigned mask, bool keep);

}  // namespace gpuplan::aten
