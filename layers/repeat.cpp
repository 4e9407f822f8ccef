// Repeat, Flip: copies of a tensor along its dimensions, and in reverse.
//
// repeat is one copy; its gradient is seen with a dimension for each repetition and summed over those
// (torch/csrc/autograd/FunctionsManual.cpp, repeat_backward). flip copies both ways. Both save sizes only.

#include <string>

#include "estimator/aten/pointwise.h"
#include "estimator/base/integers.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::repeat {
namespace {

// The dimensions that were added in front are summed one after the other, then all repetitions at once.
Operand summed(NodeBuilder& node, const Shape& in, std::span<const std::int64_t> times, DType dtype) {
  Operand dy = node.grad();
  const std::size_t added = times.size() - static_cast<std::size_t>(in.rank());
  for (std::size_t i = 0; i < added; ++i) {
    const Shape from = node.shape(dy);
    const Reduction sum{.shape = from, .reduced = 1U, .input = dtype, .output = dtype};
    dy = node.run(Operator::sum, sum, {dy}, reduced_shape(from, 1U, false), dtype);
    node.attributes({{Attribute::dims, 1}});
  }
  Shape split;
  unsigned repeated = 0;
  for (int d = 0; d < in.rank(); ++d) {
    const std::int64_t n = times[added + static_cast<std::size_t>(d)];
    if (n != 1) {
      repeated |= 1U << split.rank();
      split.push_back(n);
    }
    split.push_back(in[d]);
  }
  if (repeated == 0) return dy;
  const Reduction sum{.shape = split, .reduced = repeated, .input = dtype, .output = dtype};
  const Operand dx = node.run(Operator::sum, sum, {node.reshape(dy, split)}, in, dtype);
  node.attributes({{Attribute::dims, repeated}});
  return dx;
}

void lower_repeat(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const std::vector<std::int64_t> times = b.sizes("repeats");
  const int added = static_cast<int>(times.size()) - in.rank();
  if (added < 0 || 2 * static_cast<int>(times.size()) > 2 * Shape::kMaxRank)
    b.fail("repeats", std::to_string(times.size()) + " repetitions of an input " + to_string(in),
           "expected one for every dimension, or more");
  Shape out;
  int split = in.rank();
  for (std::size_t i = 0; i < times.size(); ++i) {
    const int from = static_cast<int>(i) - added;
    if (times[i] < 1) b.fail("repeats", "a repetition of " + std::to_string(times[i]), "expected numbers >= 1");
    out.push_back(from < 0 ? times[i] : checked_mul(times[i], in[from]));
    split += from >= 0 && times[i] != 1 ? 1 : 0;
  }
  if (split > Shape::kMaxRank) b.fail("repeats", "repeats too many dimensions at once");
  const TensorId y = b.emit(Operator::repeat, Copy{out.elements()}, {x}, {out, dtype, Placing::contiguous});
  if (NodeBuilder node = b.node("RepeatBackward0", y, {x})) node.give(x, summed(node, in, times, dtype));
  b.output(y);
}

void lower_flip(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const unsigned mask = dimension_mask(b, "dims", in.rank());
  const TensorId y = b.emit(Operator::flip, Copy{in.elements()}, {x}, {in, b.dtype(x), Placing::like});
  b.attributes({{Attribute::dims, mask}});
  if (NodeBuilder node = b.node("FlipBackward0", y, {x})) {
    node.give(x, node.run(Operator::flip, Copy{in.elements()}, {node.grad()}, {in, b.dtype(x), Placing::like}));
    node.attributes({{Attribute::dims, mask}});
  }
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "Repeat",
     .summary = "copies of a tensor along its dimensions",
     .math = "x.repeat(repeats), torch.tile: one copy. Saved: nothing. Backward: a sum over the repetitions.",
     .parameters = {{"repeats", ParameterType::integers, "",
                     "how often along every dimension of the result; _: the "
                     "batch",
                     true}},
     .indices = true,
     .lower = lower_repeat,
     .example = {.call = "Repeat(1, 1, 4, 4)",
                 .input_shapes = {{2, 8, 7, 7}},
                 .output_shape = {2, 8, 28, 28},
                 .derivation = "only sizes are saved"}},
    {.name = "Flip",
     .summary = "reverses dimensions",
     .math = "x.flip(dims): one copy. Saved: nothing. The gradient is reversed back.",
     .parameters = {{"dims", ParameterType::integers, "", "the dimensions"}},
     .indices = true,
     .lower = lower_flip,
     .example = {.call = "Flip(-1)", .input_shapes = {{4, 8, 14, 14}}, .derivation = "only sizes are saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::repeat
