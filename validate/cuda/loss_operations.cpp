// Losses of each element against a target.
#include <array>

#include "validate/cuda/kernels/pointwise_loss.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

LossArguments arguments(const Kernel& k, PointwiseLoss kind) {
  return {kind, k.number(Attribute::bend), k.number(Attribute::reduction) != 0};
}

template <PointwiseLoss kind>
void run_loss(const Machine& m, const Kernel& k) {
  pointwise_loss(m.launch, arguments(k, kind), k.reads[0], k.reads[1], k.writes[0]);
}

template <PointwiseLoss kind>
void run_slope(const Machine& m, const Kernel& k) {
  pointwise_loss_backward(m.launch, arguments(k, kind), k.reads[0], k.reads[1], k.reads[2], k.writes[0]);
}

std::string refuse_operands(const Kernel& k, const KernelTensor& x, const KernelTensor& target) {
  if (!k.has(Attribute::reduction)) return "the plan does not say whether it is a mean";
  if (!same_layout(x, target) || !is_dense(x)) return "an input and a target of different layouts";
  return x.dtype == target.dtype && x.dtype == k.writes[0].dtype ? "" : "an input and a target of different types";
}

std::string refuse_loss(const Kernel& k) { return refuse_operands(k, k.reads[0], k.reads[1]); }

std::string refuse_slope(const Kernel& k) {
  if (!same_layout(k.reads[1], k.writes[0])) return "a gradient of another layout than the input";
  return refuse_operands(k, k.reads[1], k.reads[2]);
}

template <PointwiseLoss kind>
constexpr Operation loss(Operator op) {
  return {op, run_loss<kind>, refuse_loss};
}
template <PointwiseLoss kind>
constexpr Operation slope(Operator op) {
  return {op, run_slope<kind>, refuse_slope};
}

using enum PointwiseLoss;

constexpr std::array kOperations{loss<squares>(Operator::mse_loss),
                                 slope<squares>(Operator::mse_loss_backward),
                                 loss<smooth_l1>(Operator::smooth_l1_loss),
                                 slope<smooth_l1>(Operator::smooth_l1_loss_backward),
                                 loss<huber>(Operator::huber_loss),
                                 slope<huber>(Operator::huber_loss_backward),
                                 loss<cross_entropy>(Operator::binary_cross_entropy_with_logits),
                                 slope<cross_entropy>(Operator::binary_cross_entropy_with_logits_backward)};
static_assert(is_whole_family(kOperations, OperatorFamily::losses));

}  // namespace

std::span<const Operation> loss_operations() { return kOperations; }

}  // namespace gpuplan::cuda
