// torch functions that copy elements to other positions: roll, pad, gathering of rows.
#pragma once

#include <span>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

struct Roll1d {
  std::int64_t shift = 0;
  int dimension = 0;
};
/// torch.roll over some dimensions: one after the other, a copy each (aten/src/ATen/native/cuda/
/// TensorTransformations.cu, roll_cuda; TensorTransformations.h, roll_common).
TensorId roll(LayerBuilder& b, TensorId x, std::span<const Roll1d> rolls);

struct Padding1d {
  std::int64_t before = 0, after = 0;  // negative ones cut
};
/// F.pad(x, ..., mode="constant"): `sides` of the last dimension, then of the one before, ... A copy even where nothing
/// is added (aten/src/ATen/native/PadNd.cpp, constant_pad_nd).
TensorId constant_pad(LayerBuilder& b, TensorId x, std::span<const Padding1d> sides, double value = 0);

/// table[index] of a matrix's rows by int64 indices without dimensions to keep: [indices, features]. Saves the index.
/// Backward: index_put with accumulation into zeros.
TensorId index_rows(LayerBuilder& b, TensorId table, TensorId index);

}  // namespace gpuplan::aten
