// Pointwise functions with their autograd nodes, as torch's Python code calls them. What each saves is from
// tools/autograd/derivatives.yaml; results lie as TensorIterator places them; gradients of another shape or type than
// their tensor are summed and cast by the engine.
#pragma once

#include <string_view>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

enum class Binary : std::uint8_t { add, sub, mul, div };

/// x op y with broadcasting and type promotion. In place, x must have the result's shape.
TensorId binary(LayerBuilder& b, Binary op, TensorId x, TensorId y, bool in_place = false);
/// x op number; `integer`: it is one of Python's, not a float.
TensorId binary_number(LayerBuilder& b, Binary op, TensorId x, double number, bool in_place = false,
                       bool integer = false);
inline TensorId add(LayerBuilder& b, TensorId x, TensorId y) { return binary(b, Binary::add, x, y); }
inline TensorId mul(LayerBuilder& b, TensorId x, TensorId y) { return binary(b, Binary::mul, x, y); }
/// The shape of x op y. Throws Error where they do not broadcast.
Shape broadcast(const LayerBuilder& b, const Shape& x, const Shape& y);

/// A function of one tensor whose backward is one kernel over the gradient and what was saved.
struct Unary {
  enum class Saves : std::uint8_t { nothing, result, input };
  Operator op, op_in_place;  // the same where there is no form in place
  std::string_view node;
  Operator backward;
  Saves saves = Saves::input;           // out of place
  Saves saves_in_place = Saves::input;  // input: autograd clones it first
  bool saved_leads = false;  // the backward kernel takes what was saved first, so that its result lies like it
};
/// `attributes`: its arguments beside x, those of its backward kernel too, which has `of_backward` besides.
TensorId unary(LayerBuilder& b, TensorId x, const Unary& f, bool in_place = false,
               std::initializer_list<AttributeValue> attributes = {},
               std::initializer_list<AttributeValue> of_backward = {});

extern const Unary kRelu, kHardtanh, kLeakyRelu, kElu, kSigmoid, kTanh, kGelu, kSilu, kHardswish, kHardsigmoid, kExp,
    kNeg;

/// x.pow(number), number neither 0 nor 1: saves x. Backward: x.pow(n - 1), its product with n, and with the gradient.
/// In fp32 under autocast, as rsqrt.
TensorId pow_number(LayerBuilder& b, TensorId x, double exponent);
/// torch.rsqrt: saves the result. Backward: -0.5 grad result^3 by three temporaries.
TensorId rsqrt(LayerBuilder& b, TensorId x);
/// x.mean(dim, keepdim, dtype=dtype) or x.sum(...) over the dimensions in `mask`.
TensorId reduce(LayerBuilder& b, TensorId x, unsigned mask, bool keep, bool mean,
                std::optional<DType> dtype = std::nullopt);
/// The argument, a probability.
double probability(const LayerBuilder& b, std::string_view name);
/// F.dropout(x, p, training) with 0 < p < 1 in training, else x itself (p and mode are the caller's to tell).
TensorId dropout(LayerBuilder& b, TensorId x, double p, bool training);
/// x.masked_fill(mask, number): saves the mask.
TensorId masked_fill(LayerBuilder& b, TensorId x, TensorId mask, double number, bool in_place = false);
/// A pointwise kernel without a gradient: comparisons, logical operations, integer arithmetic.
TensorId no_grad(LayerBuilder& b, Operator op, Operands reads, const Shape& shape, DType dtype,
                 std::initializer_list<AttributeValue> attributes = {});

}  // namespace gpuplan::aten
