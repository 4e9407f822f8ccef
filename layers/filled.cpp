// Zeros, Fill: tensors of one value that a model's code makes, and parts of them that it sets.
//
// torch.zeros and new_zeros are one allocation and a fill; x[a:b] = number fills a view in place (fill_), which has no
// gradient here: a tensor that wants one would be copied around by autograd (CopySlices).

#include <string>

#include "estimator/graph/layer.h"

namespace gpuplan::layers {
namespace {

void lower_zeros(LayerBuilder& b) {
  const std::optional<DType> dtype = dtype_from_name(b.word("dtype"));
  if (!dtype)
    b.fail("dtype", "unknown dtype \"" + std::string(b.word("dtype")) + "\"", "expected float32, int64, bool, ...");
  const std::vector<std::int64_t> sizes = b.sizes("shape");
  if (sizes.size() > static_cast<std::size_t>(Shape::kMaxRank))
    b.fail("shape", "at most " + std::to_string(Shape::kMaxRank) + " dimensions are supported");
  for (const std::int64_t n : sizes)
    if (n < 1) b.fail("shape", "a size must be at least 1, got " + std::to_string(n), "expected sizes >= 1");
  const Shape shape{std::span<const std::int64_t>(sizes)};
  b.output(
      b.emit("aten::new_zeros", Fill{shape.elements()}, {}, shape, is_floating(*dtype) ? b.run().precision : *dtype));
}

void lower_fill(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.requires_grad(x)) b.fail("fills a tensor that wants a gradient, which is not supported");
  b.output(b.emit_in_place("aten::fill_", Fill{b.elements(x)}, {x}));
  b.numbers({b.real("value")});
}

const LayerDef kZeros{
    .name = "Zeros",
    .summary = "a new tensor of zeros",
    .math = "torch.zeros, x.new_zeros. No gradient.",
    .parameters = {{"shape", ParameterType::integers, "", "its sizes, _ for the batch", true},
                   {"dtype", ParameterType::word, "float32", "type of its elements; floating ones follow --precision"}},
    .min_inputs = 0,
    .max_inputs = 0,
    .lower = lower_zeros,
    .example = {.call = "Zeros(8, 8)", .input_shapes = {}, .output_shape = {8, 8}, .derivation = "nothing is saved"},
};

const LayerDef kFill{
    .name = "Fill",
    .summary = "sets every element to a number, in place",
    .math = "x.fill_(value). On a view it changes a part: Slice(0, 0, 4), then Fill(1). No gradient.",
    .parameters = {{"value", ParameterType::real, "", "the number"}},
    .indices = true,
    .lower = lower_fill,
    .example = {.call = "Fill(1)",
                .input_shapes = {{8, 8}},
                .input_dtype = DType::int64,
                .output_shape = {8, 8},
                .derivation = "nothing is saved"},
};

const LayerDef* const kLayers[] = {&kZeros, &kFill};

}  // namespace

std::span<const LayerDef* const> filled_layers() { return kLayers; }

}  // namespace gpuplan::layers
