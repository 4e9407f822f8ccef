// Matrix products as torch's functions run them: which cuBLAS calls, what is flattened, expanded and copied first, and
// what each one's autograd node saves.
#pragma once

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// F.linear(x, weight [n, k], bias or kNone): addmm with cuBLASLt's bias epilogue, or mm
/// (aten/src/ATen/native/Linear.cpp). Under autocast its operands are cast, in the order x, weight, bias.
TensorId linear(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias);
/// The same inside an operator's kernel, below autograd and outside of autocast; `bias` [n] is there. Without a
/// gradient.
TensorId linear_below_autograd(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias);
/// torch.addmm(bias [n], x [m, k], weight [k, n]), Hugging Face's Conv1D.
TensorId addmm(LayerBuilder& b, TensorId bias, TensorId x, TensorId weight);
/// torch.matmul: N-D x 2-D is one mm, batched operands expand, are made 3-D (a copy where their strides allow no view)
/// and multiplied by bmm (aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl).
TensorId matmul(LayerBuilder& b, TensorId x, TensorId y);
/// The same inside a function that autocast has given its operands already and is off for (aten::autocast's guard).
/// `below_autograd`: inside an operator's kernel, where no operand says that it requires a gradient.
TensorId matmul_as_given(LayerBuilder& b, TensorId x, TensorId y, bool below_autograd = false);
/// [b, m, k] x [b, k, n].
TensorId bmm(LayerBuilder& b, TensorId x, TensorId y);
TensorId mm(LayerBuilder& b, TensorId x, TensorId y);

}  // namespace gpuplan::aten
