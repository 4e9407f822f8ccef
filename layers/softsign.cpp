// Softsign: torch.nn.functional.softsign (torch/nn/functional.py), input / (input.abs() + 1), three operators.
//
// Per tools/autograd/derivatives.yaml abs saves its input, adding a number nothing, and div both operands, since each
// one's gradient reads the other. |x| is dropped once 1 is added. None of the three is on a list of autocast
// (aten/src/ATen/autocast_mode.h), so all keep x's type. There is no form in place.

#include "estimator/aten/formula.h"
#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::softsign {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  const TensorId size = aten::function(b, Operator::abs, x, "AbsBackward0", [x](Operand grad, TensorId, auto run) {
    run(Operator::mul, {grad, run(Operator::sgn, {x})});
  });
  const TensorId divisor = aten::binary_number(b, aten::Binary::add, size, 1, false, true);
  b.output(aten::binary(b, aten::Binary::div, x, divisor));
}

const LayerDef kLayers[] = {
    {.name = "Softsign",
     .summary = "x / (1 + |x|)",
     .math = "Saves its input and 1 + |x|. Its input gets two gradients, by the quotient and by |x|.",
     .lower = lower,
     .example = {.call = "Softsign()",
                 .input_shapes = {{2, 8, 4, 4}},
                 .saved_bytes = 2'048,
                 .derivation = "x, of 2*8*4*4*4 bytes, is saved by abs and div, 1 + |x|, as large, by div"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::softsign
