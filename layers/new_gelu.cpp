// NewGELU: GELU's approximation by tanh as GPT-2 writes it in Python, operation by operation.
//
// transformers/activations.py, NewGELUActivation: 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3)))).
// pow computes in fp32 under autocast, and what follows it with it.

#include <cmath>
#include <numbers>

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::new_gelu {
namespace {

void lower(LayerBuilder& b) {
  using aten::Binary;
  const TensorId x = b.input();
  const TensorId half = aten::binary_number(b, Binary::mul, x, 0.5);
  const TensorId cubic = aten::binary_number(b, Binary::mul, aten::pow_number(b, x, 3), 0.044715);
  const TensorId scaled = aten::binary_number(b, Binary::mul, aten::add(b, x, cubic), std::sqrt(2 / std::numbers::pi));
  const TensorId factor = aten::binary_number(b, Binary::add, aten::unary(b, scaled, aten::kTanh), 1);
  b.output(aten::mul(b, half, factor));
}

const LayerDef kLayers[] = {
    {.name = "NewGELU",
     .summary = "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as GPT-2 writes it",
     .math =
         "Eight pointwise operations. Saved: x, 0.5 x, tanh(...) and 1 + tanh(...). GELU(approximate=\"tanh\") is the\n"
         "same function in one kernel, which saves x alone.",
     .lower = lower,
     .example = {.call = "NewGELU()",
                 .input_shapes = {{2, 10, 64}},
                 .saved_bytes = 20'480,
                 .derivation = "four tensors of 2*10*64*4 bytes"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::new_gelu
