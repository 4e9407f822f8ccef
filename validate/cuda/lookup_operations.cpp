// Embeddings, gather and indexing.
#include <array>

#include "validate/cuda/kernels/copy.h"
#include "validate/cuda/kernels/lookup.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

void run_embedding(const Machine& m, const Kernel& k) { embedding(m.launch, k.reads[0], k.reads[1], k.writes[0]); }

void run_embedding_backward(const Machine& m, const Kernel& k) {
  embedding_backward(m.launch, k.reads[0], k.reads[1], k.writes[0]);
}

void run_gather(const Machine& m, const Kernel& k) {
  const int dim = static_cast<int>(number(k, 0));
  gather(m.launch, k.reads[0], k.reads[1], k.writes[0], dim < 0 ? dim + k.reads[0].rank : dim);
}

// The results before the last are copies of the indices, in the layout that the kernel reads.
void run_index(const Machine& m, const Kernel& k) {
  const std::size_t copies = k.writes.size() - 1;
  for (std::size_t i = 0; i < copies && i + 1 < k.reads.size(); ++i) copy(m.launch, k.reads[i + 1], k.writes[i]);
  index(m.launch, k.reads[0], k.reads[1], k.reads[2], k.writes.back());
}

std::string refuse_embedding(const Kernel& k) {
  const KernelTensor &table = k.reads[0], &indices = k.reads[1];
  if (table.rank != 2) return "a table that is no matrix";
  if (indices.dtype != DType::int64 && indices.dtype != DType::int32) return "indices that are no integers";
  return is_row_major(indices) && is_row_major(k.writes[0]) ? "" : "indices or rows with gaps";
}

std::string refuse_embedding_backward(const Kernel& k) {
  return is_row_major(k.reads[0]) && is_row_major(k.reads[1]) && is_row_major(k.writes[0]) ? "" : "rows with gaps";
}

std::string refuse_gather(const Kernel& k) {
  if (k.numbers.empty()) return "the plan does not say along which dimension";
  return k.reads[1].dtype == DType::int64 ? "" : "indices that are no int64";
}

std::string refuse_index(const Kernel& k) {
  if (k.reads.size() != 3 || k.reads[0].rank < 2) return "indexing other than by row and column";
  return k.reads[1].dtype == DType::int64 && k.reads[2].dtype == DType::int64 ? "" : "indices that are no int64";
}

constexpr std::array kOperations{
    Operation{"embedding", run_embedding, refuse_embedding},
    Operation{"embedding_dense_backward", run_embedding_backward, refuse_embedding_backward},
    Operation{"gather", run_gather, refuse_gather}, Operation{"index", run_index, refuse_index}};

}  // namespace

std::span<const Operation> lookup_operations() { return kOperations; }

}  // namespace gpuplan::cuda
