// Chunk, Split: one tensor as several parts along a dimension.
//
// The parts are views. Their one autograd node concatenates all gradients; parts without one count as zeros, which are
// allocated first (torch/csrc/autograd/FunctionsManual.cpp, split_with_sizes_backward).

#include <algorithm>
#include <string>

#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::split {
namespace {

std::vector<std::int64_t> equal_parts(const LayerBuilder& b, std::int64_t total, std::int64_t size) {
  constexpr std::int64_t kMaxParts = 10'000;
  if (ceil_div(total, size) > kMaxParts)
    b.fail("gives " + std::to_string(ceil_div(total, size)) + " parts, at most 10000 are supported");
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < total; begin += size) sizes.push_back(std::min(size, total - begin));
  return sizes;
}

void lower_chunk(LayerBuilder& b) {
  const Shape& in = b.shape(b.input());
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  // torch gives fewer chunks than asked for when the sizes do not divide.
  b.outputs(
      aten::split(b, b.input(), dim, equal_parts(b, in[dim], ceil_div(in[dim], b.size("chunks"))), "SplitBackward0"));
}

void lower_split(LayerBuilder& b) {
  const Shape& in = b.shape(b.input());
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const std::vector<std::int64_t> sizes = b.integers("split_size_or_sections");
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 1) b.fail("split_size_or_sections", "a part has size " + std::to_string(size), "expected sizes >= 1");
    sum = checked_add(sum, size);
  }
  if (sizes.size() == 1 && sum < in[dim])
    return b.outputs(aten::split(b, b.input(), dim, equal_parts(b, in[dim], sum), "SplitBackward0"));
  if (sizes.size() > 1 && sum != in[dim])
    b.fail("split_size_or_sections", "the parts add up to " + std::to_string(sum) + ", dimension " +
                                         std::to_string(dim) + " of the input " + to_string(in) + " has " +
                                         std::to_string(in[dim]));
  b.outputs(aten::split(b, b.input(), dim, sizes.size() == 1 ? std::vector{in[dim]} : sizes,
                        sizes.size() == 1 ? "SplitBackward0" : "SplitWithSizesBackward0"));
}

const ParameterDef kDim{"dim", ParameterType::integer, "0", "dimension that is split"};

const LayerDef kLayers[] = {
    {.name = "Chunk",
     .summary = "splits a tensor into equal parts",
     .math = "x [n, ...] -> parts of ceil(n / chunks), as name.0, name.1, ...; views. Backward: one concatenation.",
     .parameters = {{"chunks", ParameterType::size, "", "how many parts"}, kDim},
     .lower = lower_chunk,
     .example = {.call = "Chunk(2, dim=1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 4, 14, 14},
                 .derivation = "8/2 channels each; views"}},
    {.name = "Split",
     .summary = "splits a tensor into parts of given sizes",
     .math = "x [n, ...] -> parts of that size, or of those sizes, as name.0, name.1, ...; views. Backward: one "
             "concatenation.",
     .parameters = {{"split_size_or_sections", ParameterType::integers, "",
                     "size of the parts, or a list of their sizes"},
                    kDim},
     .lower = lower_split,
     .example = {.call = "Split([2, 6], dim=1)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 2, 14, 14},
                 .derivation = "the first part has 2 channels; views"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::split
