// What gpuplan_kernels runs on its device.
#pragma once

#include "tests/cuda/comparing_device.h"

namespace gpuplan::comparison {

/// Every operation of the module's programs (module_bench.h), with operands that are drawn.
void compare_operations(ComparingDevice& device);
/// What those leave out: sizes that fill no pack, tile or block, strides, unaligned and empty operands, indices that
/// repeat, every optimizer, a GradScaler, dropout, attention.
void compare_cases(ComparingDevice& device);
void compare_optimizers(ComparingDevice& device, DType type);
void compare_scaler(ComparingDevice& device);
void compare_dropout(ComparingDevice& device, DType type);
void compare_attention(ComparingDevice& device, DType type);
/// Training steps of the small models, in every precision and layout.
void compare_executions(ComparingDevice& device);

}  // namespace gpuplan::comparison
