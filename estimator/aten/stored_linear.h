// bitsandbytes 0.50's modules around a weight in a form of its own (bitsandbytes/nn/modules.py,
// autograd/_functions.py).
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// Linear4bit.forward or Linear8bitLt.forward, by b.stored(): x [..., k], weight [n, k] (or as Conv1D has it), frozen;
/// bias [n] or kNone. Of LLM.int8's outliers there are none.
TensorId stored_linear(LayerBuilder& b, TensorId x, TensorId weight, std::int64_t n, TensorId bias);

/// Whether a product of x [m, k] by a 4-bit weight [n, k] reads the packed weight, or a copy of it is made in x's type
/// (bitsandbytes/backends/cuda/ops.py, gemm_4bit).
bool multiplies_packed(const Gpu& gpu, DType type, std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace gpuplan::aten
