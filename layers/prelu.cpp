// PReLU: max(x, 0) + weight min(x, 0), with a weight of its own for every channel, or one for all.
//
// F.prelu sees its weight as [1, C, 1, ...] and runs one kernel that saves both. The backward kernel writes both
// gradients as large as x; the engine sums the weight's (aten/src/ATen/native/Activation.cpp, prelu and
// _prelu_kernel_backward). Under autocast both are cast (aten/src/ATen/autocast_mode.h, its list of lower precision).

#include <string>

#include "estimator/aten/views.h"
#include "estimator/graph/layer.h"

namespace gpuplan::layers::prelu {
namespace {

void lower(LayerBuilder& b) {
  const Shape in = b.shape(b.input());
  const std::int64_t channels = in.rank() > 1 ? in[1] : 1;
  const std::int64_t n = b.size("num_parameters");
  if (n != 1 && n != channels)
    b.fail("num_parameters", std::to_string(n) + " slopes for an input " + to_string(in),
           "expected 1 or " + std::to_string(channels));
  Shape spread;
  for (int d = 0; d < in.rank(); ++d) spread.push_back(d == 1 ? n : 1);
  const TensorId x = b.cached_cast(b.input());
  const TensorId given = b.cached_cast(b.parameter("weight", {n}));
  const TensorId weight = in.rank() == 1 ? given : aten::view(b, given, spread);
  const DType dtype = b.dtype(x);
  const Elementwise work = each_of(Operator::_prelu_kernel, in);
  const TensorId y = b.emit(Operator::_prelu_kernel, work, {x, weight}, in, dtype);
  if (NodeBuilder node = b.node("PreluKernelBackward0", y, {x, weight})) {
    const OutputSpec results[] = {{in, dtype}, {in, dtype}};
    const std::vector<Operand> d =
        node.run_many(Operator::_prelu_kernel_backward, work, {x, weight, node.grad()}, results);
    if (node.needs(x)) node.give(x, d[0]);
    if (node.needs(weight)) node.give(weight, d[1]);
  }
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "PReLU",
     .summary = "max(x, 0) + weight min(x, 0)",
     .math = "x [N, C, ...], weight [C] or [1]. Saved: x and the weight. Backward: two gradients of x's size, of "
             "which the\nweight's is summed.",
     .parameters = {{"num_parameters", ParameterType::size, "1", "1, or the channels"},
                    {"init", ParameterType::real, "0.25", "first value of the weight; takes no memory"}},
     .lower = lower,
     .example = {.call = "PReLU(8)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .parameters = 8,
                 .saved_bytes = 25'088,
                 .derivation = "x is 4*8*14*14*4 bytes; the weight is a parameter"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::prelu
