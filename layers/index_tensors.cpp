// Arange, ZerosLike: integers that a model's code makes of sizes: positions, token types of a single segment.

#include "estimator/aten/pointwise.h"

namespace gpuplan::layers {
namespace {

TensorId filled(LayerBuilder& b, std::string_view name, const Shape& shape, DType dtype) {
  return b.emit(name, Fill{shape.elements()}, {}, shape, dtype);
}

void lower_arange(LayerBuilder& b) {
  b.output(filled(b, "aten::arange", {b.size("end")}, DType::int64));
  b.numbers({0});
}

void lower_zeros_like(LayerBuilder& b) {
  b.output(filled(b, "aten::zeros_like", b.shape(b.input()), b.dtype(b.input())));
}

const LayerDef kArange{
    .name = "Arange",
    .summary = "torch.arange: the integers 0 to end - 1",
    .math = "[end] of int64. No gradient.",
    .parameters = {{"end", ParameterType::size, "", "how many"}},
    .min_inputs = 0,
    .max_inputs = 0,
    .lower = lower_arange,
    .example = {.call = "Arange(128)", .input_shapes = {}, .output_shape = {128}, .derivation = "nothing is saved"},
};

const LayerDef kZerosLike{
    .name = "ZerosLike",
    .summary = "torch.zeros_like: zeros of the input's shape and type",
    .math = "x -> zeros. No gradient.",
    .parameters = {},
    .indices = true,
    .lower = lower_zeros_like,
    .example = {.call = "ZerosLike()",
                .input_shapes = {{8, 128}},
                .input_dtype = DType::int64,
                .output_shape = {8, 128},
                .derivation = "nothing is saved"},
};

const LayerDef* const kLayers[] = {&kArange, &kZerosLike};

}  // namespace

std::span<const LayerDef* const> index_tensors_layers() { return kLayers; }

}  // namespace gpuplan::layers
