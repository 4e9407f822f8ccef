// What a mixture of experts is routed and computed with.
#include <array>

#include "validate/cuda/kernels/routing.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

void run_top_k(const Machine& m, const Kernel& k) { top_k(m.launch, k.reads[0], k.writes[0], k.writes[1]); }
void run_sort(const Machine& m, const Kernel& k) { sort(m.launch, k.reads[0], k.writes[0], k.writes[1]); }
void run_count(const Machine& m, const Kernel& k) {
  count_bins(m.launch, k.reads[0], k.writes[0], k.number(Attribute::min), k.number(Attribute::max));
}

void run_grouped_product(const Machine& m, const Kernel& k) {
  const KernelTensor &first = k.reads[0], &second = k.reads[1], &ends = k.reads[2], &out = k.writes[0];
  const double of = k.number(Attribute::gradient_of);
  if (of == 0) return grouped_product(m.launch, GroupedPass::forward, out, first, second, ends);
  if (of == 1) return grouped_product(m.launch, GroupedPass::of_input, first, out, second, ends);
  grouped_product(m.launch, GroupedPass::of_weight, first, second, out, ends);
}

bool row_major(std::span<const KernelTensor> tensors) {
  for (const KernelTensor& t : tensors)
    if (!is_row_major(t)) return false;
  return true;
}

std::string refuse_rows(const Kernel& k) {
  if (!k.has(Attribute::dim) || k.number(Attribute::dim) != k.reads[0].rank - 1)
    return "other than along the last dimension";
  if (k.writes.size() < 2 || k.writes[1].dtype != DType::int64) return "indices that are not int64";
  return row_major(k.reads) && row_major(k.writes) ? "" : "rows with gaps";
}

std::string refuse_sort(const Kernel& k) {
  if (k.reads[0].rank != 1 || k.reads[0].dtype != DType::int64) return "other than one row of int64";
  return refuse_rows(k);
}

std::string refuse_count(const Kernel& k) {
  if (!k.has(Attribute::max)) return "the plan does not say between which numbers";
  return row_major(k.reads) ? "" : "numbers with gaps";
}

std::string refuse_grouped_product(const Kernel& k) {
  if (!k.has(Attribute::gradient_of) || k.reads.size() < 3) return "the plan does not say which product";
  if (k.reads[2].dtype != DType::int32) return "offsets that are not int32";
  for (const KernelTensor& t : {k.reads[0], k.reads[1]})
    if (t.dtype != k.writes[0].dtype) return "operands of several types";
  return row_major(k.reads) && row_major(k.writes) ? "" : "operands that are not row-major";
}

constexpr std::array kOperations{Operation{Operator::topk, run_top_k, refuse_rows},
                                 Operation{Operator::sort, run_sort, refuse_sort},
                                 Operation{Operator::histc, run_count, refuse_count},
                                 Operation{Operator::_grouped_mm, run_grouped_product, refuse_grouped_product}};
static_assert(is_whole_family(kOperations, OperatorFamily::routing));

}  // namespace

std::span<const Operation> routing_operations() { return kOperations; }

}  // namespace gpuplan::cuda
