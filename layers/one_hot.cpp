// OneHot: F.one_hot, classes as rows of zeros with a one in the class's place.
//
// aten/src/ATen/native/Onehot.cpp: zeros of int64, into which ones are scattered. No gradient.

#include "estimator/aten/views.h"

namespace gpuplan::layers::one_hot {
namespace {

void lower(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.dtype(x) != DType::int64) b.fail("expects classes of int64, got " + std::string(name_of(b.dtype(x))));
  Shape shape = b.shape(x);
  shape.push_back(b.size("num_classes"));
  const TensorId zeros = b.emit(Operator::zeros, Fill{shape.elements()}, {}, shape, DType::int64);
  const TensorId places = aten::unsqueeze(b, x, b.shape(x).rank());
  b.output(b.emit_in_place(Operator::scatter_, Elementwise{b.elements(x)}, {zeros, places}));
  b.attributes({{Attribute::dim, shape.rank() - 1}, {Attribute::value, 1}});
}

const LayerDef kLayers[] = {
    {.name = "OneHot",
     .summary = "F.one_hot: each class as a row of zeros with a one at its index",
     .math = "x [..] int64 -> [.., num_classes] int64. No gradient.",
     .parameters = {{"num_classes", ParameterType::size, "", "how many classes there are"}},
     .indices = true,
     .lower = lower,
     .example = {.call = "OneHot(10)",
                 .input_shapes = {{8, 16}},
                 .input_dtype = DType::int64,
                 .output_shape = {8, 16, 10},
                 .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::one_hot
