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

// All operands in their order; parameters from the numbers.
template <PointwiseOp op>
void run_plain(const Machine& m, const Kernel& k) {
  Pointwise w;
  w.op = op;
  w.out = result(k);
  for (std::size_t i = 0; i < static_cast<std::size_t>(arity(op)); ++i) w.operands[i] = tensor(k.reads[i]);
  for (std::size_t i = 0; i < 2; ++i) w.parameters[i] = number(k, i);
  pointwise(m.launch, w);
}

// The second operand may be a number.
template <PointwiseOp op>
void run_binary(const Machine& m, const Kernel& k) {
  Pointwise w;
  w.op = op;
  w.out = result(k);
  w.operands[0] = tensor(k.reads[0]);
  w.operands[1] = k.reads.size() > 1 ? tensor(k.reads[1]) : constant(number(k, 0));
  pointwise(m.launch, w);
}

// gelu and its gradient: the number says which form.
template <PointwiseOp exact, PointwiseOp by_tanh>
void run_gelu(const Machine& m, const Kernel& k) {
  return number(k, 0) != 0 ? run_plain<by_tanh>(m, k) : run_plain<exact>(m, k);
}

void run_pow(const Machine& m, const Kernel& k) {
  return number(k, 0) == 2 ? run_plain<PointwiseOp::square>(m, k) : run_plain<PointwiseOp::pow>(m, k);
}

// {alpha, whether it reads the result, not the input}
void run_elu_backward(const Machine& m, const Kernel& k) {
  return number(k, 1) != 0 ? run_plain<PointwiseOp::elu_result_backward>(m, k)
                           : run_plain<PointwiseOp::elu_backward>(m, k);
}

std::string refuse_elu_backward(const Kernel& k) {
  if (k.reads.size() < 2 || k.numbers.size() < 2) return "the plan does not say what it reads";
  return refuse_pointwise(k);
}

void run_bernoulli(const Machine& m, const Kernel& k) { bernoulli(m.launch, k.writes[0], number(k, 0), k.seed); }

std::string refuse_bernoulli(const Kernel& k) {
  return k.numbers.empty() ? "the plan does not say how probable a 1 is" : "";
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
    const bool first = number(k, 1) == 1;
    w.operands[first ? 1 : 2] = constant(number(k, 0));
    w.operands[first ? 2 : 1] = tensor(k.reads[1]);
    if (k.writes.size() > 1) fill(m.launch, k.writes[0], number(k, 0));
  } else {
    w.operands[1] = constant(number(k, 0));
    w.operands[2] = constant(number(k, 1));
  }
  pointwise(m.launch, w);
}

void run_dropout(const Machine& m, const Kernel& k) {
  dropout(m.launch, k.reads[0], k.writes[0], k.writes[1], number(k, 0), k.seed);
}

void run_dropout_backward(const Machine& m, const Kernel& k) {
  const double p = number(k, 0);
  Pointwise w;
  w.op = PointwiseOp::dropout_backward;
  w.out = result(k);
  w.operands[0] = tensor(k.reads[0]);
  w.operands[1] = tensor(k.reads[1]);
  w.parameters[0] = p < 1 ? 1 / (1 - p) : 0;
  pointwise(m.launch, w);
}

// Parameters of the operation that are numbers.
constexpr std::size_t parameters(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::hardtanh:
    case PointwiseOp::hardtanh_backward: return 2;
    case PointwiseOp::pow:
    case PointwiseOp::leaky_relu:
    case PointwiseOp::leaky_relu_backward:
    case PointwiseOp::elu:
    case PointwiseOp::masked_fill: return 1;
    default: return 0;
  }
}

template <PointwiseOp op>
std::string refuse_plain(const Kernel& k) {
  if (k.reads.size() < static_cast<std::size_t>(arity(op))) return "the plan does not give all operands";
  if (k.numbers.size() < parameters(op)) return "the plan does not say which number it is given";
  return refuse_pointwise(k);
}
std::string refuse_binary(const Kernel& k) {
  if (k.reads.empty() || (k.reads.size() < 2 && k.numbers.empty()))
    return "the plan does not say which number it is given";
  return refuse_pointwise(k);
}

template <PointwiseOp op>
constexpr Operation plain(std::string_view name) {
  return {name, run_plain<op>, refuse_plain<op>};
}
template <PointwiseOp op>
constexpr Operation binary(std::string_view name) {
  return {name, run_binary<op>, refuse_binary};
}

using enum PointwiseOp;

constexpr std::array kOperations{
    binary<add>("add"),
    binary<add>("add_"),
    binary<sub>("sub"),
    binary<sub>("sub_"),
    binary<rsub>("rsub"),
    binary<mul>("mul"),
    binary<mul>("mul_"),
    binary<div>("div"),
    binary<div>("div_"),
    binary<eq>("eq"),
    binary<ne>("ne"),
    binary<le>("le"),
    binary<gt>("gt"),
    binary<lt>("lt"),
    binary<ge>("ge"),
    binary<bit_and>("__and__"),
    binary<bit_and>("bitwise_and"),
    plain<minimum>("min"),
    binary<floor_divide>("floor_divide"),
    plain<abs>("abs"),
    plain<sgn>("sgn"),
    plain<log>("log"),
    plain<neg>("neg"),
    plain<neg>("neg_"),
    plain<exp>("exp"),
    plain<exp>("exp_"),
    plain<sin>("sin"),
    plain<cos>("cos"),
    plain<tanh>("tanh"),
    plain<tanh>("tanh_"),
    plain<relu>("relu"),
    plain<relu>("relu_"),
    plain<silu>("silu"),
    plain<silu>("silu_"),
    plain<sigmoid>("sigmoid"),
    plain<sigmoid>("sigmoid_"),
    plain<rsqrt>("rsqrt"),
    plain<hardtanh>("hardtanh"),
    plain<hardtanh>("hardtanh_"),
    plain<leaky_relu>("leaky_relu"),
    plain<leaky_relu>("leaky_relu_"),
    plain<elu>("elu"),
    plain<elu>("elu_"),
    plain<threshold_backward>("threshold_backward"),
    plain<leaky_relu_backward>("leaky_relu_backward"),
    plain<hardsigmoid>("hardsigmoid"),
    plain<hardsigmoid>("hardsigmoid_"),
    plain<hardswish>("hardswish"),
    plain<hardswish>("hardswish_"),
    plain<hardsigmoid_backward>("hardsigmoid_backward"),
    plain<hardswish_backward>("hardswish_backward"),
    plain<hardtanh_backward>("hardtanh_backward"),
    plain<silu_backward>("silu_backward"),
    plain<tanh_backward>("tanh_backward"),
    plain<sigmoid_backward>("sigmoid_backward"),
    plain<masked_fill>("masked_fill"),
    plain<masked_fill>("masked_fill_"),
    Operation{"gelu", run_gelu<gelu, gelu_tanh>, refuse_pointwise},
    Operation{"gelu_backward", run_gelu<gelu_backward, gelu_tanh_backward>, refuse_pointwise},
    Operation{"elu_backward", run_elu_backward, refuse_elu_backward},
    Operation{"bernoulli_", run_bernoulli, refuse_bernoulli},
    Operation{"pow", run_pow, refuse_plain<PointwiseOp::pow>},
    Operation{"where", run_where, refuse_pointwise},
    Operation{"native_dropout", run_dropout},
    Operation{"native_dropout_backward", run_dropout_backward}};

}  // namespace

std::span<const Operation> pointwise_operations() { return kOperations; }

}  // namespace gpuplan::cuda
