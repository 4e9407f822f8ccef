// Matrix products.
#include <array>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

// y = a b (+ bias), each of [batch, rows, columns].
Values multiplied(const Values& a, const Values& b, std::int64_t batch, std::int64_t m, std::int64_t k,
                  std::int64_t n) {
  Values y = zeros({batch, m, n});
  for (std::int64_t i = 0; i < batch; ++i)
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < k; ++j) sum += a[(i * m + r) * k + j] * b[(i * k + j) * n + c];
        y[(i * m + r) * n + c] = sum;
      }
  return y;
}

void product(const Kernel& k) {
  const KernelTensor &a = k.reads[0], &b = k.reads[1], &y = k.writes[0];
  const int r = a.rank;
  const std::int64_t batch = r == 3 ? a.sizes[0] : 1;
  if (a.rank != b.rank || a.sizes[r - 1] != b.sizes[r - 2] || a.sizes[r - 2] != y.sizes[r - 2] ||
      b.sizes[r - 1] != y.sizes[r - 1])
    throw Error("factors " + shape_of(a) + " and " + shape_of(b) + " of a product " + shape_of(y));
  Values out = multiplied(read(a), read(b), batch, a.sizes[r - 2], a.sizes[r - 1], b.sizes[r - 1]);
  if (k.reads.size() > 2) {
    const Values bias = read(k.reads[2], sizes_of(y));
    for (std::int64_t i = 0; i < out.count(); ++i) out[i] += bias[i];
  }
  write(y, out);
}

constexpr std::array kOperations{Operation{Operator::mm, product, 2}, Operation{Operator::bmm, product, 2},
                                 Operation{Operator::addmm, product, 3}};

}  // namespace

std::span<const Operation> product_operations() { return kOperations; }

}  // namespace gpuplan::host
