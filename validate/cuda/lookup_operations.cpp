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
  gather(m.launch, k.reads[0], k.reads[1], k.writes[0], dimension(k, k.reads[0].rank));
}

// A row-major tensor as a matrix.
KernelTensor as_rows(KernelTensor t) {
  const std::int64_t n = elements_of(t);
  t.sizes[1] = t.sizes[0] == 0 ? 0 : n / t.sizes[0];
  t.strides[0] = t.sizes[1];
  t.strides[1] = 1;
  t.rank = 2;
  return t;
}

// The index of one dimension as it stands for every line of `like`.
KernelTensor along(const KernelTensor& index, const KernelTensor& like, int dim) {
  KernelTensor t = like;
  t.data = index.data;
  t.dtype = index.dtype;
  for (int i = 0; i < t.rank; ++i) t.strides[i] = i == dim && index.rank > 0 ? index.strides[0] : 0;
  return t;
}

void run_index_select(const Machine& m, const Kernel& k) {
  const int dim = dimension(k, k.reads[0].rank);
  gather(m.launch, k.reads[0], along(k.reads[1], k.writes[0], dim), k.writes[0], dim);
}

template <bool adds>
void run_scatter(const Machine& m, const Kernel& k) {
  scatter(m.launch, k.reads[1], k.reads[2], k.reads[0], dimension(k, k.reads[0].rank), adds);
}

void run_index_add(const Machine& m, const Kernel& k) {
  const int dim = dimension(k, k.reads[0].rank);
  scatter(m.launch, k.reads[1], along(k.reads[2], k.reads[1], dim), k.reads[0], dim, true);
}

// reads the table, the index, the values.
void run_index_put(const Machine& m, const Kernel& k) {
  scatter(m.launch, k.reads[2], along(k.reads[1], k.reads[2], 0), k.reads[0], 0, false);
}

// reads the table, the values, the index; rows.
void run_index_put_and_add(const Machine& m, const Kernel& k) {
  KernelTensor values = k.reads[1];
  if (!is_row_major(values)) {  // the copy that index_put makes of them
    const std::int64_t bytes = elements_of(values) * size_of(values.dtype);
    values.data = scratch_of(k, bytes);
    if (values.data == nullptr && bytes <= m.launch.partial_bytes) values.data = m.launch.partials;
    if (values.data == nullptr)
      return scatter(m.launch, k.reads[1], along(k.reads[2], k.reads[1], 0), k.reads[0], 0, true);
    std::int64_t step = 1;
    for (int i = values.rank; i-- > 0;) values.strides[i] = step, step *= values.sizes[i];
    copy(m.launch, k.reads[1], values);
  }
  embedding_backward(m.launch, values, k.reads[2], as_rows(k.reads[0]), true);
}

// By row and column. The results before the last are copies of the indices that do not have the result's shape: of
// both, or of the second one.
void run_index(const Machine& m, const Kernel& k) {
  if (k.reads.size() == 2 && k.has(Attribute::dim)) return run_index_select(m, k);
  if (k.reads.size() == 2) return embedding(m.launch, as_rows(k.reads[0]), k.reads[1], k.writes[0]);
  const KernelTensor& y = k.writes.back();
  KernelTensor table = k.reads[0], rows = k.reads[1];
  if (table.sizes[0] == 1) {  // of one row for all, as it was before it was expanded
    table.sizes[0] = y.sizes[0];
    table.strides[0] = 0;
  }
  const int shared = y.rank - (table.rank - 2);  // dimensions of the indices
  // The row index is one a row of the result.
  for (; rows.rank < shared && k.reads[1].rank == 1; ++rows.rank) {
    rows.sizes[rows.rank] = 1;
    rows.strides[rows.rank] = 0;
  }
  if (k.writes.size() > 2) copy(m.launch, rows, k.writes[0]);
  if (k.writes.size() > 1) copy(m.launch, k.reads[2], k.writes[k.writes.size() - 2]);
  index(m.launch, table, rows, k.reads[2], y);
}

std::string refuse_embedding(const Kernel& k) {
  const KernelTensor &table = k.reads[0], &indices = k.reads[1];
  if (table.rank != 2) return "a table that is not a matrix";
  if (indices.dtype != DType::int64 && indices.dtype != DType::int32) return "indices that are not integers";
  return is_row_major(indices) && is_row_major(k.writes[0]) ? "" : "indices or rows with gaps";
}

std::string refuse_embedding_backward(const Kernel& k) {
  return is_row_major(k.reads[0]) && is_row_major(k.reads[1]) && is_row_major(k.writes[0]) ? "" : "rows with gaps";
}

std::string refuse_gather(const Kernel& k) {
  if (!k.has(Attribute::dim)) return "the plan does not say along which dimension";
  return k.reads[1].dtype == DType::int64 ? "" : "indices that are not int64";
}

std::string refuse_index_select(const Kernel& k) {
  if (!k.has(Attribute::dim)) return "the plan does not say along which dimension";
  return k.reads[1].rank <= 1 && k.reads[1].dtype == DType::int64 ? "" : "indices that are not a 1-D int64 tensor";
}

std::string refuse_scatter(const Kernel& k) {
  if (!k.has(Attribute::dim) || k.reads.size() < 3) return "the plan does not say along which dimension";
  if (k.reads[2].dtype != DType::int64 && k.reads[2].dtype != DType::int32) return "indices that are not integers";
  return k.reads[0].dtype == k.reads[1].dtype ? "" : "values of another type than the table";
}

std::string refuse_index_put(const Kernel& k) {
  if (k.reads.size() < 3 || k.reads[1].rank != 1 || k.reads[1].dtype != DType::int64) return "other than one row index";
  return k.reads[0].dtype == k.reads[2].dtype ? "" : "values of another type than the table";
}

std::string refuse_index_put_and_add(const Kernel& k) {
  if (k.reads.size() < 3) return "other than one row index";
  for (const KernelTensor& t : {k.reads[0], k.reads[2]})
    if (!is_row_major(t)) return "rows with gaps";
  return k.reads[0].dtype == k.reads[1].dtype ? "" : "values of another type than the table";
}

std::string refuse_index(const Kernel& k) {
  if (k.reads.size() == 2) {
    if (k.has(Attribute::dim)) return refuse_index_select(k);
    if (k.reads[1].dtype != DType::int64) return "indices that are not int64";
    for (const KernelTensor& t : {k.reads[0], k.reads[1], k.writes[0]})
      if (!is_row_major(t)) return "rows with gaps";
    return "";
  }
  if (k.reads.size() != 3 || k.reads[0].rank < 2) return "indexing other than by row and column";
  return k.reads[1].dtype == DType::int64 && k.reads[2].dtype == DType::int64 ? "" : "indices that are not int64";
}

constexpr std::array kOperations{
    Operation{Operator::embedding, run_embedding, refuse_embedding},
    Operation{Operator::embedding_dense_backward, run_embedding_backward, refuse_embedding_backward},
    Operation{Operator::index_select, run_index_select, refuse_index_select},
    Operation{Operator::index_add_, run_index_add, refuse_scatter},
    Operation{Operator::index_put_, run_index_put, refuse_index_put},
    Operation{Operator::_index_put_impl_, run_index_put_and_add, refuse_index_put_and_add},
    Operation{Operator::scatter_, run_scatter<false>, refuse_scatter},
    Operation{Operator::scatter_add_, run_scatter<true>, refuse_scatter},
    Operation{Operator::gather, run_gather, refuse_gather},
    Operation{Operator::index, run_index, refuse_index}};
static_assert(is_whole_family(kOperations, OperatorFamily::lookups));

}  // namespace

std::span<const Operation> lookup_operations() { return kOperations; }

}  // namespace gpuplan::cuda
