// Pow, Rsqrt, Scale: powers of every element, and products with a number.
//
// Per derivatives.yaml pow saves its input, rsqrt its result, and a product with a number nothing. Each factor of the
// gradients of pow and rsqrt is a tensor that lives until the gradient is there. Both compute in fp32 under autocast.

#include "estimator/aten/pointwise.h"
#include "estimator/aten/promote.h"

namespace gpuplan::layers::powers {
namespace {

// torch.pow(x, y) of two tensors, which no model differentiates: ALiBi's slopes.
void lower_pow_of_two(LayerBuilder& b) {
  if (b.requires_grad(b.input(0)) || b.requires_grad(b.input(1)))
    b.fail("takes a power that is a tensor of what wants a gradient, which is not supported");
  const TensorId x = b.autocast_fp32(b.input(0)), y = b.autocast_fp32(b.input(1));
  const Shape shape = aten::broadcast(b, b.shape(x), b.shape(y));
  b.output(aten::no_grad(b, Operator::pow, {x, y}, shape, aten::promote(b.dtype(x), b.dtype(y))));
}

void lower_pow(LayerBuilder& b) {
  if (b.input_count() == 2) return lower_pow_of_two(b);
  if (!b.given("exponent")) b.fail("exponent", "one input wants a number", "Pow(2)");
  const double exponent = b.real("exponent");
  if (exponent == 0 || exponent == 1)
    b.fail("exponent", "a power of 0 or 1 needs no kernel", "expected another number");
  b.output(aten::pow_number(b, b.autocast_fp32(b.input()), exponent));
}

void lower_rsqrt(LayerBuilder& b) { b.output(aten::rsqrt(b, b.autocast_fp32(b.input()))); }

void lower_scale(LayerBuilder& b) {
  b.output(aten::binary_number(b, aten::Binary::mul, b.input(), b.real("factor"), b.boolean("inplace")));
}

const LayerDef kLayers[] = {
    {.name = "Pow",
     .summary = "x to a power",
     .math = "y = x^e. Saved: x. Backward: x^(e-1), its product with e, and that with the gradient. A second input is "
             "e, without gradient.",
     .parameters = {{"exponent", ParameterType::real, "None", "e, a number other than 0 and 1"}},
     .max_inputs = 2,
     .lower = lower_pow,
     .example = {.call = "Pow(2)",
                 .input_shapes = {{2, 8, 4, 4}},
                 .saved_bytes = 1'024,
                 .derivation = "x is 2*8*4*4*4 bytes"}},
    {.name = "Rsqrt",
     .summary = "one over the square root",
     .math = "y = 1 / sqrt(x). Saved: y. Backward: -grad y^3 / 2, of two temporaries.",
     .lower = lower_rsqrt,
     .example = {.call = "Rsqrt()",
                 .input_shapes = {{2, 8, 4, 4}},
                 .saved_bytes = 1'024,
                 .derivation = "the result, 2*8*4*4*4 bytes, is saved"}},
    {.name = "Scale",
     .summary = "x times a number",
     .math = "y = f x. Saved: nothing.",
     .parameters = {{"factor", ParameterType::real, "", "f"},
                    {"inplace", ParameterType::boolean, "False", "writes into its input"}},
     .lower = lower_scale,
     .example = {.call = "Scale(0.125)", .input_shapes = {{2, 8, 4, 4}}, .derivation = "nothing is saved"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::powers
