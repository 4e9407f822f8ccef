// Clamp, VectorNorm and Normalize: values between bounds, norms over dimensions, and F.normalize, x / max(||x||, eps)
// over a dimension.
//
// F.normalize is linalg_vector_norm, clamp_min, an expanded view and a quotient (torch/nn/functional.py).

#include "estimator/aten/clamp.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/vector_norm.h"
#include "estimator/aten/views.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::normalize {
namespace {

void lower_clamp(LayerBuilder& b) {
  aten::Bounds bounds;
  if (b.given("min")) bounds.low = b.real("min");
  if (b.given("max")) bounds.high = b.real("max");
  if (!bounds.low && !bounds.high) b.fail("needs min, max or both");
  b.output(aten::clamp(b, b.input(), bounds));
}

void lower_vector_norm(LayerBuilder& b) {
  const unsigned mask = dimension_mask(b, "dim", b.shape(b.input()).rank());
  b.output(aten::vector_norm(b, b.input(), mask, b.boolean("keepdim")));
}

void lower_normalize(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape in = b.shape(x);
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const TensorId norms = aten::vector_norm(b, x, 1U << dim, true);
  const TensorId norm = aten::clamp(b, norms, aten::Bounds{b.real("eps"), std::nullopt});
  b.output(aten::binary(b, aten::Binary::div, x, aten::expand(b, norm, in)));
}

// ((x / |x|) * (y / |y|)).sum(dim), of copies of the norms that are clamped in place without a gradient, by a number
// that is a tensor (aten/src/ATen/native/Distance.cpp, cosine_similarity).
void lower_cosine_similarity(LayerBuilder& b) {
  const TensorId x = b.input(0), y = b.input(1);
  if (b.shape(x) != b.shape(y))
    b.fail("expects two inputs of one shape, got " + to_string(b.shape(x)) + " and " + to_string(b.shape(y)));
  const unsigned mask = 1U << wrap_dimension(b, "dim", b.integer("dim"), b.shape(x).rank());
  const TensorId of_x = aten::clone(b, aten::vector_norm(b, x, mask, true));
  const TensorId of_y = aten::clone(b, aten::vector_norm(b, y, mask, true));
  const TensorId least = b.emit(Operator::scalar_tensor, Fill{1}, {}, Shape{}, b.dtype(of_x));
  b.attributes({{Attribute::value, b.real("eps")}});
  const TensorId first = aten::binary(b, aten::Binary::div, x, of_x);
  const TensorId second = aten::binary(b, aten::Binary::div, y, of_y);
  b.output(aten::reduce(b, aten::mul(b, first, second), mask, false, false));
  b.hold({least, of_x, of_y, first, second});
}

const LayerDef kLayers[] = {
    {.name = "Clamp",
     .summary = "values between bounds",
     .math = "y = min(max(x, low), high). Saved: x. Backward: masks of one byte an element, and one gradient.",
     .parameters = {{"min", ParameterType::real, "None", "least value"},
                    {"max", ParameterType::real, "None", "largest value"}},
     .lower = lower_clamp,
     .example = {.call = "Clamp(max=4.6)",
                 .input_shapes = {{2, 8, 4, 4}},
                 .saved_bytes = 1'024,
                 .derivation = "x, 2*8*4*4*4 bytes, is saved"}},
    {.name = "VectorNorm",
     .summary = "the root of the sum of squares over dimensions",
     .math = "y = sqrt(sum of x^2 over dim), under autocast in fp32 of x in its own type. Saved: x and y. Backward: x "
             "/ y,\na mask of y's size, and one gradient.",
     .parameters = {{"dim", ParameterType::integers, "None", "dimension or list of dimensions; None: all"},
                    {"keepdim", ParameterType::boolean, "False", "keeps the reduced dimensions with size 1"}},
     .lower = lower_vector_norm,
     .example = {.call = "VectorNorm(dim=[2, 3], keepdim=True)",
                 .input_shapes = {{2, 8, 4, 16}},
                 .output_shape = {2, 8, 1, 1},
                 .saved_bytes = 4'160,
                 .derivation = "x of 2*8*4*16*4 bytes, and the norms, 2*8*4 bytes"}},
    {.name = "Normalize",
     .summary = "x divided by its norm over a dimension",
     .math = "y = x / max(sqrt(sum of x^2 over dim), eps). Saved: x, the norms and the clamped norms.",
     .parameters = {{"dim", ParameterType::integer, "1", "dimension that the norm is of"},
                    {"eps", ParameterType::real, "1e-12", "least norm"}},
     .lower = lower_normalize,
     .example = {.call = "Normalize(dim=-1)",
                 .input_shapes = {{2, 8, 4, 16}},
                 .saved_bytes = 4'608,
                 .derivation = "x of 2*8*4*16*4 bytes, and two tensors of 2*8*4*4 bytes"}},
    {.name = "CosineSimilarity",
     .summary = "the cosine of the angle between two inputs over a dimension",
     .math =
         "y = sum of (x / |x|) (z / |z|) over dim. Saved: both inputs, their norms and copies of them, both quotients.",
     .parameters = {{"dim", ParameterType::integer, "1", "the dimension that is summed over"},
                    {"eps", ParameterType::real, "1e-8", "least norm"}},
     .min_inputs = 2,
     .lower = lower_cosine_similarity,
     .example = {.call = "CosineSimilarity(1)",
                 .input_shapes = {{4, 16}, {4, 16}},
                 .output_shape = {4},
                 .saved_bytes = 1'088,
                 .derivation = "two inputs and two quotients of 4*16*4 bytes, four norms of 4*4"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::normalize
