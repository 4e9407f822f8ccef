// torch.clamp by numbers, and by tensors of one element or broadcast to x.
#pragma once

#include <optional>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

struct Bounds {
  std::optional<double> low, high;  // one of them at least
};

/// min(max(x, low), high). Saves x; the gradient is chosen by a mask of one byte an element against a scalar zero, two
/// masks joined in place where both bounds are given (torch/csrc/autograd/FunctionsManual.cpp, clamp_backward).
TensorId clamp(LayerBuilder& b, TensorId x, const Bounds& bounds);

/// The same by tensors; kNone: no such bound. Saves x and the bounds. x has the gradient where it lies between the
/// bounds, half of it where it equals one: where(equals and low < high, grad / 2, grad), filled with 0 where x lies
/// beyond them, as torch.dispatch lists it of 2.15.0; with one bound it is maximum's (derivatives.yaml). In 2.1 and 2.4
/// it is where(mask, grad, 0), as of a number. Throws Error where a gradient is not known.
TensorId clamp(LayerBuilder& b, TensorId x, TensorId low, TensorId high);

}  // namespace gpuplan::aten
