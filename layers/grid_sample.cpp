// GridSample: F.grid_sample, an image at the places of a grid.
//
// Saves the image and the grid; backward allocates both gradients, that of the image zero-filled
// (aten/src/ATen/native/cuda/GridSampler.cu). Under autocast the operands get the wider of their types.

#include <algorithm>
#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::layers::grid_sample {
namespace {

void expect_word(const LayerBuilder& b, std::string_view name, std::initializer_list<std::string_view> known) {
  if (std::ranges::find(known, b.word(name)) != known.end()) return;
  std::string list;
  for (const std::string_view word : known) list += (list.empty() ? "" : ", ") + std::string(word);
  b.fail(name, "unknown " + std::string(name) + " \"" + std::string(b.word(name)) + "\"", "expected " + list);
}

void lower(LayerBuilder& b) {
  expect_word(b, "mode", {"bilinear", "nearest", "bicubic"});
  expect_word(b, "padding_mode", {"zeros", "border", "reflection"});
  TensorId x = b.input(0), grid = b.input(1);
  const Shape in = b.shape(x), places = b.shape(grid);
  if (in.rank() != 4 || places.rank() != 4 || places[3] != 2 || places[0] != in[0])
    b.fail("expects an image [N, C, H, W] and a grid [N, P, Q, 2], got " + to_string(in) + " and " + to_string(places));
  if (!b.contiguous(x)) b.fail("expects a contiguous image");
  if (b.autocast() && b.dtype(x) != b.dtype(grid)) {
    x = b.autocast_fp32(x);
    grid = b.autocast_fp32(grid);
  }
  if (b.dtype(x) != b.dtype(grid)) b.fail("expects an image and a grid of one type");
  const Shape out{in[0], in[1], places[1], places[2]};
  constexpr int kTaps = 4;
  const TensorId y = b.emit(Operator::grid_sampler_2d, Pooling{out.elements(), kTaps}, {x, grid}, out, b.dtype(x));
  if (NodeBuilder node = b.node("GridSampler2DBackward0", y, {x, grid})) {
    node.save(x);
    node.save(grid);
    const OutputSpec both[] = {{in, b.dtype(x)}, {places, b.dtype(grid)}};
    const std::size_t first = node.needs(x) ? 0 : 1;  // that of the grid is computed always
    const std::vector<Operand> gradients =
        node.run_many(Operator::grid_sampler_2d_backward, Pooling{out.elements(), kTaps}, {node.grad(), x, grid},
                      std::span(both).subspan(first));
    if (node.needs(x)) node.give(x, gradients[0]);
    if (node.needs(grid)) node.give(grid, gradients[1 - first]);
  }
  b.output(y);
}

const LayerDef kLayers[] = {
    {.name = "GridSample",
     .summary = "F.grid_sample: an image at the places of a grid",
     .math = "x [N, C, H, W], grid [N, P, Q, 2] -> y [N, C, P, Q]. Saved: both.",
     .parameters = {{"mode", ParameterType::word, "bilinear", "bilinear, nearest or bicubic"},
                    {"padding_mode", ParameterType::word, "zeros", "what is outside: zeros, border or reflection"},
                    {"align_corners", ParameterType::boolean, "False", "whether -1 and 1 are centres of pixels"}},
     .min_inputs = 2,
     .max_inputs = 2,
     .lower = lower,
     .example = {.call = "GridSample()",
                 .input_shapes = {{2, 3, 8, 8}, {2, 5, 5, 2}},
                 .output_shape = {2, 3, 5, 5},
                 .saved_bytes = 1'936,
                 .derivation = "x is 2*3*8*8*4 bytes, the grid 2*5*5*2*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::grid_sample
