// Sums, softmax, losses, running sums.
#include <array>
#include <variant>

#include "validate/cuda/kernels/loss.h"
#include "validate/cuda/kernels/pointwise.h"
#include "validate/cuda/kernels/reduce.h"
#include "validate/cuda/kernels/scan.h"
#include "validate/cuda/kernels/softmax.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

int dimension(const Kernel& k) { return cuda::dimension(k, k.reads[0].rank); }

// The bits of the dimensions; where the plan says nothing, the leading ones and those that the result has as 1.
unsigned dimensions(const Kernel& k) {
  const KernelTensor& in = k.reads[0];
  const KernelTensor& out = result(k);
  if (k.has(Attribute::dims)) return static_cast<unsigned>(k.number(Attribute::dims));
  if (const auto* reduction = std::get_if<Reduction>(k.what);
      reduction != nullptr && reduction->shape.rank() == in.rank)
    return reduction->reduced;
  unsigned bits = 0;
  const int added = in.rank - out.rank;
  for (int i = 0; i < in.rank; ++i)
    if (i < added || out.sizes[i - added] != in.sizes[i]) bits |= 1U << i;
  return bits;
}

// The result without the dimensions of size 1 that keep its rank, or those that another shape gives it.
KernelTensor as_reduced(const Kernel& k, unsigned bits) {
  KernelTensor out = result(k);
  const KernelTensor& in = k.reads[0];
  int kept = 0;
  for (int i = 0; i < in.rank; ++i) kept += (bits >> i & 1U) == 0 ? 1 : 0;
  if (out.rank == in.rank || out.rank == kept) return out;
  KernelTensor flat = out;
  flat.rank = kept;
  std::int64_t step = 1;
  for (int i = in.rank - 1, at = kept - 1; i >= 0; --i) {
    if ((bits >> i & 1U) != 0) continue;
    flat.sizes[at] = in.sizes[i];
    flat.strides[at--] = step;
    step *= in.sizes[i];
  }
  return flat;
}

void run_sum(const Machine& m, const Kernel& k) {
  const unsigned bits = dimensions(k);
  reduce(m.launch, Reducing::sum, k.reads[0], as_reduced(k, bits), bits);
}

void run_mean(const Machine& m, const Kernel& k) {
  const KernelTensor& in = k.reads[0];
  const unsigned bits = dimensions(k);
  double count = 1;
  for (int i = 0; i < in.rank; ++i)
    if ((bits >> i & 1U) != 0) count *= static_cast<double>(in.sizes[i]);
  reduce(m.launch, Reducing::sum, in, as_reduced(k, bits), bits, 1 / count);
}

template <Reducing what>
void run_logical(const Machine& m, const Kernel& k) {
  reduce(m.launch, what, k.reads[0], as_reduced(k, (1U << k.reads[0].rank) - 1), (1U << k.reads[0].rank) - 1);
}

template <bool log>
void run_softmax(const Machine& m, const Kernel& k) {
  softmax(m.launch, k.reads[0], k.writes[0], dimension(k), log);
}

void run_safe_softmax(const Machine& m, const Kernel& k) {
  softmax(m.launch, k.reads[0], k.writes[0], dimension(k), false, true);
}

template <bool log>
void run_softmax_backward(const Machine& m, const Kernel& k) {
  softmax_backward(m.launch, k.reads[0], k.reads[1], result(k), dimension(k), log);
}

void run_loss(const Machine& m, const Kernel& k) {
  nll_loss(m.launch, k.reads[0], k.reads[1], k.writes[0], k.writes[1],
           static_cast<std::int64_t>(k.number(Attribute::ignore_index, -100)));
}

void run_loss_backward(const Machine& m, const Kernel& k) {
  fill(m.launch, k.writes[0], 0);
  nll_loss_backward(m.launch, k.reads[0], k.reads[2], k.reads[3], k.writes[0],
                    static_cast<std::int64_t>(k.number(Attribute::ignore_index, -100)));
}

void run_cumsum(const Machine& m, const Kernel& k) { cumsum(m.launch, k.reads[0], k.writes[0], dimension(k)); }

std::string refuse_sum(const Kernel& k) {
  const KernelTensor out = as_reduced(k, dimensions(k));
  return elements_of(out) == elements_of(result(k)) ? "" : "a sum whose dimensions the plan does not record";
}

std::string refuse_dimension(const Kernel& k) {
  return !k.has(Attribute::dim) ? "the plan does not say along which dimension" : "";
}

constexpr std::array kOperations{
    Operation{Operator::sum, run_sum, refuse_sum},
    Operation{Operator::mean, run_mean, refuse_sum},
    Operation{Operator::all, run_logical<Reducing::all>},
    Operation{Operator::any, run_logical<Reducing::any>},
    Operation{Operator::_softmax, run_softmax<false>, refuse_dimension},
    Operation{Operator::_safe_softmax, run_safe_softmax, refuse_dimension},
    Operation{Operator::_log_softmax, run_softmax<true>, refuse_dimension},
    Operation{Operator::_softmax_backward_data, run_softmax_backward<false>, refuse_dimension},
    Operation{Operator::_log_softmax_backward_data, run_softmax_backward<true>, refuse_dimension},
    Operation{Operator::nll_loss_forward, run_loss},
    Operation{Operator::nll_loss2d_forward, run_loss},
    Operation{Operator::nll_loss_backward, run_loss_backward},
    Operation{Operator::nll_loss2d_backward, run_loss_backward},
    Operation{Operator::cumsum, run_cumsum, refuse_dimension}};
static_assert(is_whole_family(kOperations, OperatorFamily::reductions));

}  // namespace

std::span<const Operation> reduction_operations() { return kOperations; }

}  // namespace gpuplan::cuda
