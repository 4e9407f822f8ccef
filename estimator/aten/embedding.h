// F.embedding: rows of a table.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// weight [rows, features], indices [...] of integers -> [..., features]. Indices that are no flat view are copied
/// while it runs, and again in backward (aten/src/ATen/native/Embedding.cpp, cuda/Embedding.cu). Saves the indices; the
/// gradient of the table is dense.
TensorId embedding(LayerBuilder& b, TensorId weight, TensorId indices);

}  // namespace gpuplan::aten
