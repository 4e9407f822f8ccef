// Flatten, Unflatten, View, Reshape, Contiguous: the same elements under another shape.
//
// Where the strides allow it they are views: no kernel, only sizes are saved, and the gradient is viewed back.
// Otherwise reshape and contiguous clone first and the clone's gradient passes through
// (aten/src/ATen/native/TensorShape.cpp, reshape), and view refuses. Before 2.0 reshape's view is _reshape_alias.

#include <string>

#include "estimator/aten/views.h"
#include "estimator/graph/dimensions.h"

namespace gpuplan::layers::reshape {
namespace {

// `sizes` with its -1, if any, such that it has `elements`.
Shape infer_sizes(const LayerBuilder& b, std::string_view argument, const std::vector<std::int64_t>& sizes,
                  std::int64_t elements) {
  if (sizes.size() > static_cast<std::size_t>(Shape::kMaxRank))
    b.fail(argument, "at most " + std::to_string(Shape::kMaxRank) + " dimensions are supported");
  int inferred = -1;
  Shape known;
  Shape out;
  for (const std::int64_t n : sizes) {
    if (n < 1 && n != -1)
      b.fail(argument, "size " + std::to_string(n) + " is neither a size nor -1", "expected >= 1, or one -1");
    if (n == -1 && inferred >= 0) b.fail(argument, "only one size can be -1");
    if (n == -1) inferred = out.rank();
    out.push_back(n);
    known.push_back(n == -1 ? 1 : n);
  }
  const std::int64_t product = known.elements();
  if (inferred >= 0 ? elements % product != 0 : elements != product)
    b.fail(argument, "the sizes " + to_string(out) + " do not fit the input " + to_string(b.shape(b.input())) + " of " +
                         std::to_string(elements) + " elements");
  if (inferred >= 0) out.set(inferred, elements / product);
  return out;
}

void lower_flatten(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape& in = b.shape(x);
  const int from = wrap_dimension(b, "start_dim", b.integer("start_dim"), in.rank());
  const int to = wrap_dimension(b, "end_dim", b.integer("end_dim"), in.rank());
  if (from > to) b.fail("start_dim", "start_dim comes after end_dim for an input " + to_string(in));
  b.output(aten::flatten(b, x, from, to));
}

void lower_unflatten(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape& in = b.shape(x);
  const int dim = wrap_dimension(b, "dim", b.integer("dim"), in.rank());
  const Shape split = infer_sizes(b, "unflattened_size", b.integers("unflattened_size"), in[dim]);
  Shape out;
  for (int i = 0; i < in.rank(); ++i) {
    if (i != dim) out.push_back(in[i]);
    if (i == dim)
      for (const std::int64_t n : split.sizes()) out.push_back(n);
  }
  b.output(aten::view(b, x, out));
}

void lower_view(LayerBuilder& b) {
  const TensorId x = b.input();
  const Shape out = infer_sizes(b, "shape", b.integers("shape"), b.elements(x));
  b.output(aten::view(b, x, out));
}

void lower_reshape(LayerBuilder& b) {
  const TensorId x = b.input();
  b.output(aten::reshape(b, x, infer_sizes(b, "shape", b.integers("shape"), b.elements(x))));
}

void lower_contiguous(LayerBuilder& b) { b.output(aten::contiguous(b, b.input())); }

const std::vector<ParameterDef> kShape = {
    {"shape", ParameterType::integers, "", "all sizes, the batch first; one of them -1: what is left", true}};

const LayerDef kLayers[] = {
    {.name = "Flatten",
     .summary = "joins dimensions start_dim to end_dim",
     .math = "x [N, C, H, W] -> [N, C H W]. A view; a copy where the strides of x allow none.",
     .parameters = {{"start_dim", ParameterType::integer, "1", "first dimension joined"},
                    {"end_dim", ParameterType::integer, "-1", "last dimension joined"}},
     .lower = lower_flatten,
     .example = {.call = "Flatten()",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 1568},
                 .derivation = "8*14*14; a view"}},
    {.name = "Unflatten",
     .summary = "splits one dimension into several",
     .math = "x [..., n, ...] -> [..., a, b, ...] with a b = n. A view.",
     .parameters = {{"dim", ParameterType::integer, "", "dimension to split"},
                    {"unflattened_size", ParameterType::integers, "", "its new sizes; one of them -1: what is left"}},
     .lower = lower_unflatten,
     .example = {.call = "Unflatten(1, (2, -1))",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 2, 4, 14, 14},
                 .derivation = "8 = 2*4; a view"}},
    {.name = "View",
     .summary = "tensor.view",
     .math =
         "x -> the same elements under the sizes given, the batch first: View(-1, 784). No kernel, nothing is saved.",
     .parameters = kShape,
     .lower = lower_view,
     .example = {.call = "View(-1, 2, 4, 196)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 2, 4, 196},
                 .derivation = "4*8*14*14 / (2*4*196) = 4; a view"}},
    {.name = "Reshape",
     .summary = "tensor.reshape",
     .math = "As View; a copy where the strides of x allow no view. The sizes start with the batch.",
     .parameters = kShape,
     .lower = lower_reshape,
     .example = {.call = "Reshape(-1, 1568)",
                 .input_shapes = {{4, 8, 14, 14}},
                 .output_shape = {4, 1568},
                 .derivation = "a view"}},
    {.name = "Contiguous",
     .summary = "tensor.contiguous",
     .math = "A copy when x is not contiguous, else x itself. The gradient passes through.",
     .lower = lower_contiguous,
     .example = {.call = "Contiguous()",
                 .input_shapes = {{4, 8, 14, 14}},
                 .derivation = "the input is contiguous: nothing happens"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::reshape
