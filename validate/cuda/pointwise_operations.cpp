// The operations of the pointwise engine.
#include <array>
#include <cmath>

#include "validate/cuda/kernels/dropout.h"
#include "validate/cuda/kernels/pointwise.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

// Whether it broadcasts, right-aligned.
bool fits(const KernelTensor& t, const KernelTensor& to) {
  if (t.rank > to.rank) return false;
  for (int i = 0; i < t.rank; ++i)
    if (t.sizes[i] != 1 && t.sizes[i] != to.sizes[to.rank - t.rank + i]) return false;
  return true;
}

std::string refuse_pointwise(const Kernel& k) {
  const KernelTensor& to = k.writes.empty() ? k.reads[0] : k.writes.back();
  for (const KernelTensor& t : k.reads)
    if (!fits(t, to)) return "an operand that does not broadcast to the result";
  return "";
}

PointwiseOperand tensor(const KernelTensor& t) { return {t, false, 0}; }
PointwiseOperand constant(double value) { return {{}, true, value}; }

// Its parameters that are no operands.
std::span<const Attribute> parameters(PointwiseOp op) {
  static constexpr std::array kBounds{Attribute::min_val, Attribute::max_val};
  static constexpr std::array kSlope{Attribute::negative_slope}, kAlpha{Attribute::alpha}, kValue{Attribute::value},
      kExponent{Attribute::exponent};
  switch (op) {
    case PointwiseOp::hardtanh:
    case PointwiseOp::hardtanh_backward: return kBounds;
    case PointwiseOp::pow: return kExponent;
    case PointwiseOp::leaky_relu:
    case PointwiseOp::leaky_relu_backward: return kSlope;
    case PointwiseOp::elu:
    case PointwiseOp::elu_backward:
    case PointwiseOp::elu_result_backward: return kAlpha;
    case PointwiseOp::masked_fill: return kValue;
    default: return {};
  }
}

// All operands in their order.
template <PointwiseOp op>
void run_plain(const Machine& m, const Kernel& k) {
  Pointwise w;
  w.op = op;
  w.out = result(k);
  for (std::size_t i = 0; i < static_cast<std::size_t>(arity(op)); ++i) w.operands[i] = tensor(k.reads[i]);
  for (std::size_t i = 0; const Attribute a : parameters(op)) w.parameters[i++] = k.number(a);
  pointwise(m.launch, w);
}

// The second operand may be a number.
template <PointwiseOp op>
void run_binary(const Machine& m, const Kernel& k) {
  Pointwise w;
  w.op = op;
  w.out = result(k);
  w.operands[0] = tensor(k.reads[0]);
  w.operands[1] = k.reads.size() > 1 ? tensor(k.reads[1]) : constant(k.number(Attribute::other));
  pointwise(m.launch, w);
}

// gelu and its gradient.
template <PointwiseOp exact, PointwiseOp by_tanh>
void run_gelu(const Machine& m, const Kernel& k) {
  return k.number(Attribute::approximate) != 0 ? run_plain<by_tanh>(m, k) : run_plain<exact>(m, k);
}

void run_pow(const Machine& m, const Kernel& k) {
  return k.number(Attribute::exponent) == 2 ? run_plain<PointwiseOp::square>(m, k) : run_plain<PointwiseOp::pow>(m, k);
}

void run_elu_backward(const Machine& m, const Kernel& k) {
  return k.number(Attribute::is_result) != 0 ? run_plain<PointwiseOp::elu_result_backward>(m, k)
                                             : run_plain<PointwiseOp::elu_backward>(m, k);
}

std::string refuse_elu_backward(const Kernel& k) {
  if (k.reads.size() < 2 || !k.has(Attribute::alpha) || !k.has(Attribute::is_result))
    return "the plan does not say what it reads";
  return refuse_pointwise(k);
}

void run_bernoulli(const Machine& m, const Kernel& k) {
  bernoulli(m.launch, k.writes[0], k.number(Attribute::p), k.seed);
}

std::string refuse_bernoulli(const Kernel& k) {
  return !k.has(Attribute::p) ? "the plan does not say how probable a 1 is" : "";
}

void run_where(const Machine& m, const Kernel& k) {
  Pointwise w;
  w.op = PointwiseOp::where;
  w.out = k.writes.back();
  w.operands[0] = tensor(k.reads[0]);
  if (k.reads.size() > 2) {
    w.operands[1] = tensor(k.reads[1]);
    w.operands[2] = tensor(k.reads[2]);
  } else if (k.reads.size() == 2) {
    const bool first = k.has(Attribute::self);
    const double value = k.number(first ? Attribute::self : Attribute::other);
    w.operands[first ? 1 : 2] = constant(value);
    w.operands[first ? 2 : 1] = tensor(k.reads[1]);
    if (k.writes.size() > 1) fill(m.launch, k.writes[0], value);
  } else {
    w.operands[1] = constant(k.number(Attribute::self));
    w.operands[2] = constant(k.number(Attribute::other));
  }
  pointwise(m.launch, w);
}

void run_dropout(const Machine& m, const Kernel& k) {
  dropout(m.launch, k.reads[0], k.writes[0], k.writes[1], k.number(Attribute::p), k.seed);
}

void run_dropout_backward(const Machine& m, const Kernel& k) {
  const double p = k.number(Attribute::p);
  Pointwise w;
  w.op = PointwiseOp::dropout_backward;
  w.out = result(k);
  w.operands[0] = tensor(k.reads[0]);
  w.operands[1] = tensor(k.reads[1]);
  w.parameters[0] = p < 1 ? 1 / (1 - p) : 0;
  pointwise(m.launch, w);
}

template <PointwiseOp op>
std::string refuse_plain(const Kernel& k) {
  if (k.reads.size() < static_cast<std::size_t>(arity(op))) return "the plan does not give all operands";
  for (const Attribute a : parameters(op))
    if (!k.has(a)) return "the plan does not say which number it is given";
  return refuse_pointwise(k);
}
std::string refuse_binary(const Kernel& k) {
  if (k.reads.empty() || (k.reads.size() < 2 && !k.has(Attribute::other)))
    return "the plan does not say which number it is given";
  if (k.has(Attribute::dim)) return "a part of a tensor";
  return refuse_pointwise(k);
}

template <PointwiseOp what>
constexpr Operation plain(Operator op) {
  return {op, run_plain<what>, refuse_plain<what>};
}
template <PointwiseOp what>
constexpr Operation binary(Operator op) {
  return {op, run_binary<what>, refuse_binary};
}

using enum PointwiseOp;

constexpr std::array kOperations{
    binary<add>(Operator::add),
    binary<add>(Operator::add_),
    binary<sub>(Operator::sub),
    binary<sub>(Operator::sub_),
    binary<rsub>(Operator::rsub),
    binary<mul>(Operator::mul),
    binary<mul>(Operator::mul_),
    binary<div>(Operator::div),
    binary<div>(Operator::div_),
    binary<eq>(Operator::eq),
    binary<ne>(Operator::ne),
    binary<le>(Operator::le),
    binary<gt>(Operator::gt),
    binary<lt>(Operator::lt),
    binary<ge>(Operator::ge),
    binary<bit_and>(Operator::bit_and),
    plain<minimum>(Operator::min),
    binary<floor_divide>(Operator::floor_divide),
    plain<abs>(Operator::abs),
    plain<sgn>(Operator::sgn),
    plain<log>(Operator::log),
    plain<neg>(Operator::neg),
    plain<neg>(Operator::neg_),
    plain<exp>(Operator::exp),
    plain<exp>(Operator::exp_),
    plain<sin>(Operator::sin),
    plain<cos>(Operator::cos),
    plain<tanh>(Operator::tanh),
    plain<tanh>(Operator::tanh_),
    plain<relu>(Operator::relu),
    plain<relu>(Operator::relu_),
    plain<silu>(Operator::silu),
    plain<silu>(Operator::silu_),
    plain<sigmoid>(Operator::sigmoid),
    plain<sigmoid>(Operator::sigmoid_),
    plain<rsqrt>(Operator::rsqrt),
    plain<hardtanh>(Operator::hardtanh),
    plain<hardtanh>(Operator::hardtanh_),
    plain<leaky_relu>(Operator::leaky_relu),
    plain<leaky_relu>(Operator::leaky_relu_),
    plain<elu>(Operator::elu),
    plain<elu>(Operator::elu_),
    plain<threshold_backward>(Operator::threshold_backward),
    plain<leaky_relu_backward>(Operator::leaky_relu_backward),
    plain<hardsigmoid>(Operator::hardsigmoid),
    plain<hardsigmoid>(Operator::hardsigmoid_),
    plain<hardswish>(Operator::hardswish),
    plain<hardswish>(Operator::hardswish_),
    plain<hardsigmoid_backward>(Operator::hardsigmoid_backward),
    plain<hardswish_backward>(Operator::hardswish_backward),
    plain<hardtanh_backward>(Operator::hardtanh_backward),
    plain<silu_backward>(Operator::silu_backward),
    plain<tanh_backward>(Operator::tanh_backward),
    plain<sigmoid_backward>(Operator::sigmoid_backward),
    plain<masked_fill>(Operator::masked_fill),
    plain<masked_fill>(Operator::masked_fill_),
    Operation{Operator::gelu, run_gelu<gelu, gelu_tanh>, refuse_pointwise},
    Operation{Operator::gelu_backward, run_gelu<gelu_backward, gelu_tanh_backward>, refuse_pointwise},
    Operation{Operator::elu_backward, run_elu_backward, refuse_elu_backward},
    Operation{Operator::bernoulli_, run_bernoulli, refuse_bernoulli},
    Operation{Operator::pow, run_pow, refuse_plain<PointwiseOp::pow>},
    Operation{Operator::where, run_where, refuse_pointwise},
    Operation{Operator::native_dropout, run_dropout},
    Operation{Operator::native_dropout_backward, run_dropout_backward}};
static_assert(is_whole_family(kOperations, OperatorFamily::pointwise));

}  // namespace

std::span<const Operation> pointwise_operations() { return kOperations; }

}  // namespace gpuplan::cuda
