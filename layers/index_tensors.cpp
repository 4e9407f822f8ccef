// Arange, Linspace, ZerosLike: tensors that a model's code makes of sizes alone: positions, grids, token types of a
// single segment. Each forward allocates them anew.

#include <cmath>

#include "estimator/aten/pointwise.h"
#include "estimator/graph/dtype_argument.h"

namespace gpuplan::layers::index_tensors {
namespace {

TensorId filled(LayerBuilder& b, Operator op, const Shape& shape, DType dtype) {
  return b.emit(op, Fill{shape.elements()}, {}, shape, dtype);
}

// ceil((end - start) / step) (aten/src/ATen/native/RangeUtils.h, compute_arange_size).
void lower_arange(LayerBuilder& b) {
  const double start = b.real("start"), end = b.real("end"), step = b.real("step");
  const double count = std::ceil((end - start) / step);
  if (!(count >= 1 && count < 1e15)) b.fail("end", "the range is empty", "expected a start before the end");
  b.output(filled(b, Operator::arange, {static_cast<std::int64_t>(count)}, converted_dtype(b)));
  b.attributes({{Attribute::start, start}});
}

void lower_linspace(LayerBuilder& b) {
  b.output(filled(b, Operator::linspace, {b.size("steps")}, converted_dtype(b)));
  b.attributes({{Attribute::start, b.real("start")}, {Attribute::end, b.real("end")}});
}

void lower_zeros_like(LayerBuilder& b) {
  b.output(filled(b, Operator::zeros_like, b.shape(b.input()), b.dtype(b.input())));
}

const LayerDef kLayers[] = {
    {.name = "Arange",
     .summary = "torch.arange: numbers from start to end, excluding the end",
     .math = "[ceil((end - start) / step)]. No gradient.",
     .parameters = {{"end", ParameterType::real, "", "where it ends, not included"},
                    {"start", ParameterType::real, "0", "the first one"},
                    {"step", ParameterType::real, "1", "from one to the next"},
                    {"dtype", ParameterType::word, "int64", "type of its elements; floating ones follow --precision"}},
     .min_inputs = 0,
     .lower = lower_arange,
     .example = {.call = "Arange(128)", .input_shapes = {}, .output_shape = {128}, .derivation = "nothing is saved"}},
    {.name = "Linspace",
     .summary = "torch.linspace: numbers from start to end, evenly spaced",
     .math = "[steps]. No gradient.",
     .parameters = {{"start", ParameterType::real, "", "the first one"},
                    {"end", ParameterType::real, "", "the last one"},
                    {"steps", ParameterType::size, "", "how many"},
                    {"dtype", ParameterType::word, "float32",
                     "type of its elements; floating ones follow --precision"}},
     .min_inputs = 0,
     .lower = lower_linspace,
     .example =
         {.call = "Linspace(-1, 1, 14)", .input_shapes = {}, .output_shape = {14}, .derivation = "nothing is saved"}},
    {.name = "ZerosLike",
     .summary = "torch.zeros_like: zeros of the input's shape and type",
     .math = "x -> zeros. No gradient.",
     .indices = true,
     .lower = lower_zeros_like,
     .example = {.call = "ZerosLike()",
                 .input_shapes = {{8, 128}},
                 .input_dtype = DType::int64,
                 .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::index_tensors
