// Zeros, Full, Eye, FromHost, Fill: tensors that a model's code makes, and parts of them that it sets.
//
// Each is one allocation that its kernel fills, FromHost a tensor that is copied from the host's memory
// (tensor.to("cuda")); x[a:b] = number fills a view in place (fill_), which has no gradient here: SetPart is for a
// tensor that wants one.

#include "estimator/graph/dtype_argument.h"

namespace gpuplan::layers::filled {
namespace {

Shape written_shape(const LayerBuilder& b) {
  const std::vector<std::int64_t> sizes = b.sizes("shape");
  if (sizes.size() > static_cast<std::size_t>(Shape::kMaxRank))
    b.fail("shape", "at most " + std::to_string(Shape::kMaxRank) + " dimensions are supported");
  for (const std::int64_t n : sizes)
    if (n < 1) b.fail("shape", "a size must be at least 1, got " + std::to_string(n), "expected sizes >= 1");
  return Shape{std::span<const std::int64_t>(sizes)};
}

// Of the type that is given, else of its input's: torch.zeros(4, dtype=x.dtype), x.new_zeros(4).
TensorId make(LayerBuilder& b, Operator op, const Shape& shape) {
  const bool like = b.input_count() > 0 && !b.given("dtype");
  return b.emit(op, Fill{shape.elements()}, {}, shape, like ? b.dtype(b.input()) : converted_dtype(b));
}

void lower_zeros(LayerBuilder& b) { b.output(make(b, Operator::new_zeros, written_shape(b))); }

void lower_full(LayerBuilder& b) {
  b.output(make(b, Operator::full, written_shape(b)));
  b.attributes({{Attribute::value, b.real("value")}});
}

void lower_eye(LayerBuilder& b) { b.output(make(b, Operator::eye, Shape{b.size("n"), b.size("m")})); }

void lower_from_host(LayerBuilder& b) { b.output(make(b, Operator::_to_copy, written_shape(b))); }

void lower_fill(LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.requires_grad(x)) b.fail("fills a tensor that wants a gradient, which is not supported");
  b.output(b.emit_in_place(Operator::fill_, Fill{b.elements(x)}, {x}));
  b.attributes({{Attribute::value, b.real("value")}});
}

const ParameterDef kShape{"shape", ParameterType::integers, "", "its sizes, _ for the batch", true};
const ParameterDef kDType{"dtype", ParameterType::word, "float32",
                          "type of its elements, else its input's; floating ones follow --precision"};

LayerDef made(std::string_view name, std::string_view summary, std::string_view math,
              std::vector<ParameterDef> parameters, void (*lower)(LayerBuilder&), std::string_view call) {
  return {.name = name,
          .summary = summary,
          .math = math,
          .parameters = std::move(parameters),
          .min_inputs = 0,
          .max_inputs = 1,
          .lower = lower,
          .example = {.call = call, .input_shapes = {}, .output_shape = {8, 8}, .derivation = "nothing is saved"}};
}

const LayerDef kLayers[] = {
    made("Zeros", "a new tensor of zeros", "torch.zeros, x.new_zeros. No gradient.", {kShape, kDType}, lower_zeros,
         "Zeros(8, 8)"),
    made("Full", "a new tensor of one value", "torch.full, torch.ones. No gradient.",
         {kShape, {"value", ParameterType::real, "1", "the value"}, kDType}, lower_full, "Full(8, 8, value=1)"),
    made("Eye", "a new tensor with ones on its diagonal", "torch.eye. No gradient.",
         {{"n", ParameterType::size, "", "rows"}, {"m", ParameterType::size, "", "columns"}, kDType}, lower_eye,
         "Eye(8, 8)"),
    made("FromHost", "a tensor that is copied from the host's memory",
         "tensor.to(\"cuda\") in the forward: one allocation. No gradient.", {kShape, kDType}, lower_from_host,
         "FromHost(8, 8)"),
    {.name = "Fill",
     .summary = "sets every element to a number, in place",
     .math = "x.fill_(value). On a view it changes a part: Slice(0, 0, 4), then Fill(1). No gradient.",
     .parameters = {{"value", ParameterType::real, "", "the number"}},
     .indices = true,
     .lower = lower_fill,
     .example =
         {.call = "Fill(1)", .input_shapes = {{8, 8}}, .input_dtype = DType::int64, .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::filled
