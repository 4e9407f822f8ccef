// Layer, group, instance and root-mean-square normalisation as torch's functions run them. Under autocast the first two
// and the fused rms_norm compute in fp32 (aten/src/ATen/autocast_mode.h). Checked against recorded calls of PyTorch
// 2.15 and 2.8 (tests/shadow/layers.*.tsv). Weights may be kNone.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// F.layer_norm over the last `dimensions` dimensions: native_layer_norm, which copies a non-contiguous input while it
/// runs, saves the input as given, the mean and rstd of each row, and hands back dX, dweight, dbias.
TensorId layer_norm(LayerBuilder& b, TensorId x, int dimensions, TensorId weight, TensorId bias, double eps);
/// F.rms_norm: one kernel from 2.10 on, before it a composite of pow, mean, rsqrt and products
/// (aten/src/ATen/native/layer_norm.cpp, rms_norm_composite).
TensorId rms_norm(LayerBuilder& b, TensorId x, int dimensions, TensorId weight, double eps);
/// F.group_norm of [N, C, ...]: native_group_norm, which saves the input, and the mean and rstd of each group.
TensorId group_norm(LayerBuilder& b, TensorId x, std::int64_t groups, TensorId weight, TensorId bias, double eps);
/// F.instance_norm of [N, C, ...] without running statistics: batch norm of [1, N C, ...] with repeated weights
/// (aten/src/ATen/native/Normalization.cpp, instance_norm).
TensorId instance_norm(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias, double eps);

}  // namespace gpuplan::aten
