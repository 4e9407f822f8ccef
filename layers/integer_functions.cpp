// FloorDivide, Remainder, Not, RPow: arithmetic that a model's code does on positions and masks. No gradient.
//
// RPow is number ** x: the number becomes a tensor of 8 bytes on the device once the result is there
// (aten/src/ATen/native/Pow.cpp, pow of a Scalar and a Tensor).

#include <string>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"

namespace gpuplan::layers::integer_functions {
namespace {

TensorId without_gradient(const LayerBuilder& b) {
  const TensorId x = b.input();
  if (b.requires_grad(x)) b.fail("of a tensor that wants a gradient, which is not supported");
  return x;
}

TensorId elementwise(LayerBuilder& b, Operator op) {
  const TensorId x = without_gradient(b);
  return aten::no_grad(b, op, {x}, b.shape(x), b.dtype(x));
}

void lower_floor_divide(LayerBuilder& b) {
  b.output(elementwise(b, Operator::floor_divide));
  b.attributes({{Attribute::other, b.real("other")}});
}

void lower_remainder(LayerBuilder& b) {
  b.output(elementwise(b, Operator::remainder));
  b.attributes({{Attribute::other, b.real("other")}});
}

void lower_not(LayerBuilder& b) { b.output(elementwise(b, Operator::bitwise_not)); }

void lower_rpow(LayerBuilder& b) {
  const TensorId x = without_gradient(b);
  const OpaqueKernel work = aten::result_with_temporary(size_of(DType::int64), b.elements(x));
  b.output(b.emit(Operator::pow, work, {x}, b.shape(x), b.dtype(x)));
  b.attributes({{Attribute::self, b.real("base")}});
}

LayerDef function(std::string_view name, std::string_view summary, std::vector<ParameterDef> parameters,
                  void (*lower)(LayerBuilder&), std::string_view call) {
  return {
      .name = name,
      .summary = summary,
      .math = "One tensor. No gradient.",
      .parameters = std::move(parameters),
      .indices = true,
      .lower = lower,
      .example = {
          .call = call, .input_shapes = {{4, 8, 14}}, .input_dtype = DType::int64, .derivation = "nothing is saved"}};
}

const ParameterDef kOther{"other", ParameterType::real, "", "the number"};

const LayerDef kLayers[] = {
    function("FloorDivide", "x // number", {kOther}, lower_floor_divide, "FloorDivide(2)"),
    function("Remainder", "x % number", {kOther}, lower_remainder, "Remainder(2)"),
    function("Not", "every bit, or boolean, inverted", {}, lower_not, "Not()"),
    function("RPow", "a number to the power x", {{"base", ParameterType::real, "", "the number"}}, lower_rpow,
             "RPow(10000)"),
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::integer_functions
