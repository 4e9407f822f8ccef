// MatMul: the product of two tensors, batched and broadcast over their leading dimensions.
//
// What is flattened, expanded or copied first: estimator/aten/linear.h.

#include "estimator/aten/linear.h"

namespace gpuplan::layers::matmul {
namespace {

void lower(LayerBuilder& b) { b.output(aten::matmul(b, b.input(0), b.input(1))); }

const LayerDef kLayers[] = {
    {.name = "MatMul",
     .summary = "torch.matmul of two inputs",
     .math =
         "x [..., m, k], y [..., k, n] -> [..., m, n]; leading sizes broadcast. Forward m n k multiply-adds a batch,\n"
         "backward twice that. Saved: each operand the other one's gradient needs, or the copy that was multiplied.",
     .min_inputs = 2,
     .lower = lower,
     .example = {.call = "MatMul()",
                 .input_shapes = {{2, 4, 10, 64}, {2, 4, 64, 12}},
                 .output_shape = {2, 4, 10, 12},
                 .forward_macs = 61'440,
                 .backward_macs = 122'880,
                 .saved_bytes = 45'056,
                 .derivation = "2*4 products of 10*64*12; x is 2*4*10*64*4 bytes, y 2*4*64*12*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::matmul
