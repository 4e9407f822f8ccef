#include "validate/cuda/kernels/strided.h"

#include <algorithm>

namespace gpuplan::cuda {

Walked walked(int rank, const std::int64_t* sizes, const std::int64_t* const* strides, int operands) {
  int order[KernelTensor::kMaxRank] = {};
  int kept = 0;
  Walked w;
  for (int i = 0; i < rank; ++i) {
    w.elements *= sizes[i];
    if (sizes[i] != 1) order[kept++] = i;
  }
  // Row-major where strides are equal: the later dimension is the faster one.
  std::reverse(order, order + kept);
  std::stable_sort(order, order + kept, [&](int i, int j) { return strides[0][i] < strides[0][j]; });
  for (int n = 0; n < kept; ++n) {
    const int i = order[n];
    bool merges = w.rank > 0;
    for (int k = 0; merges && k < operands; ++k)
      merges = strides[k][i] == w.strides[k][w.rank - 1] * w.sizes[w.rank - 1];
    if (merges) {
      w.sizes[w.rank - 1] *= sizes[i];
      continue;
    }
    w.sizes[w.rank] = sizes[i];
    for (int k = 0; k < operands; ++k) w.strides[k][w.rank] = strides[k][i];
    ++w.rank;
  }
  return w;
}

std::int64_t elements_of(const KernelTensor& t) {
  std::int64_t n = 1;
  for (int i = 0; i < t.rank; ++i) n *= t.sizes[i];
  return n;
}

void broadcast_strides(const KernelTensor& t, const KernelTensor& to, std::int64_t* strides) {
  for (int i = 0; i < to.rank; ++i) {
    const int from = i - (to.rank - t.rank);
    strides[i] = from >= 0 && t.sizes[from] != 1 ? t.strides[from] : 0;
  }
}

bool is_dense(const KernelTensor& t) {
  const std::int64_t* strides[] = {t.strides};
  const Walked w = walked(t.rank, t.sizes, strides, 1);
  return w.elements == 0 || w.rank == 0 || (w.rank == 1 && w.strides[0][0] == 1);
}

bool same_layout(const KernelTensor& a, const KernelTensor& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.sizes[i] != b.sizes[i] || (a.sizes[i] != 1 && a.strides[i] != b.strides[i])) return false;
  return true;
}

bool is_row_major(const KernelTensor& t) {
  std::int64_t step = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    if (t.sizes[i] != 1 && t.strides[i] != step) return false;
    step *= t.sizes[i];
  }
  return true;
}

}  // namespace gpuplan::cuda
