// mm, bmm and addmm.
#include <array>

#include "validate/cuda/kernels/copy.h"
#include "validate/cuda/operation.h"
#include "validate/cuda/products.h"

namespace gpuplan::cuda {
namespace {

// What the plan gives the product; the kernels' own partial sums where that is more.
Workspace workspace_of(const Machine& m, const Kernel& k) {
  Workspace w{m.launch.partials, m.launch.partial_bytes};
  for (const KernelScratch& s : k.scratch)
    if (s.data != nullptr && s.bytes > w.bytes) w = {s.data, s.bytes};
  return w;
}

// cuBLASLt adds one number to each column, in types other than fp64.
bool fits_epilogue(const KernelTensor& bias, const KernelTensor& out) {
  return bias.rank == 1 && bias.sizes[0] == out.sizes[1] && (bias.strides[0] == 1 || bias.sizes[0] == 1) &&
         out.dtype != DType::fp64 && out.strides[1] == 1 && bias.dtype == out.dtype;
}

void run_product(const Machine& m, const Kernel& k) {
  Product p;
  p.a = k.reads[0];
  p.b = k.reads[1];
  p.out = result(k);
  p.tf32 = k.tf32;
  if (k.reads.size() > 2) {
    if (fits_epilogue(k.reads[2], p.out)) {
      p.bias = k.reads[2];
    } else {
      copy(m.launch, k.reads[2], p.out);
      p.adds_to_out = true;
    }
  }
  m.products.run(m.launch, p, workspace_of(m, k));
}

std::string refuse_product(const Kernel& k) {
  if (!is_floating(k.reads[0].dtype)) return "a product of integers";
  if (k.reads[0].dtype != k.reads[1].dtype) return "a product of two types";
  for (std::size_t i = 0; i < 2; ++i)
    if (needs_copy(k.reads[i])) return "an operand that is neither row-major nor column-major";
  const KernelTensor &a = k.reads[0], &b = k.reads[1], &out = result(k);
  const int row = out.rank - 2, column = out.rank - 1;
  const bool fit = a.rank == out.rank && b.rank == out.rank && a.sizes[column] == b.sizes[row] &&
                   a.sizes[row] == out.sizes[row] && b.sizes[column] == out.sizes[column];
  return fit ? "" : "factors that do not fit";
}

constexpr std::array kOperations{Operation{Operator::mm, run_product, refuse_product},
                                 Operation{Operator::bmm, run_product, refuse_product},
                                 Operation{Operator::addmm, run_product, refuse_product}};
static_assert(is_whole_family(kOperations, OperatorFamily::products));

}  // namespace

std::span<const Operation> product_operations() { return kOperations; }

}  // namespace gpuplan::cuda
