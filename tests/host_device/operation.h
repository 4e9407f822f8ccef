// The operations of HostDevice, a file a family. What each is given: estimator/operators/operators.inc.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tests/host_device/elements.h"
#include "validate/executor/kernel.h"

namespace gpuplan::host {

struct Operation {
  Operator op;
  void (*run)(const Kernel& kernel);
  std::size_t reads = 0, attributes = 0;  // at least so many of each; where `either`, of both together
  bool either = false;
};

std::span<const Operation> pointwise_operations();
std::span<const Operation> pointwise_backward_operations();
std::span<const Operation> product_operations();
std::span<const Operation> convolution_operations();
std::span<const Operation> normalisation_operations();
std::span<const Operation> pooling_operations();
std::span<const Operation> attention_operations();
std::span<const Operation> loss_operations();
std::span<const Operation> movement_operations();
std::span<const Operation> reduction_operations();
std::span<const Operation> resampling_operations();
std::span<const Operation> group_norm_operations();
std::span<const Operation> pointwise_loss_operations();
std::span<const Operation> indexing_operations();
std::span<const Operation> routing_operations();
std::span<const Operation> recurrent_operations();

/// What the operation writes: its last result, or the first operand of one in place.
inline const KernelTensor& target(const Kernel& k) { return k.writes.empty() ? k.reads[0] : k.writes.back(); }

/// Its attributes in the order of the operator's row; 0 where one is not given.
inline std::vector<double> in_row_order(const Kernel& k) {
  std::vector<double> values;
  for (const Attribute a : row_of(k.op).attributes) values.push_back(k.number(a));
  return values;
}

/// y = whole slices of reads[0] at the indices reads[1] of a dimension.
void look_up(const Kernel& k, int dim);

/// y = f(x) of each element; x broadcast to y.
template <class F>
void each(const Kernel& k, F&& f) {
  const KernelTensor& y = target(k);
  Values x = read(k.reads[0], sizes_of(y));
  for (double& v : x.at) v = f(v);
  write(y, x);
}

/// y = f(a, b).
template <class F>
void each_pair(const Kernel& k, F&& f) {
  const KernelTensor& y = target(k);
  Values a = read(k.reads[0], sizes_of(y));
  const Values b = read(k.reads[1], sizes_of(y));
  for (std::int64_t i = 0; i < a.count(); ++i) a[i] = f(a[i], b[i]);
  write(y, a);
}

/// A tensor seen as [outer, size of dim, inner].
struct Lines {
  std::int64_t outer = 1, size = 1, inner = 1;
  std::int64_t index(std::int64_t o, std::int64_t i, std::int64_t in) const { return (o * size + i) * inner + in; }
};
inline Lines lines(const KernelTensor& t, int dim) {
  if (dim < 0) dim += t.rank;
  Lines l;
  for (int i = 0; i < t.rank; ++i) (i < dim ? l.outer : i == dim ? l.size : l.inner) *= t.sizes[i];
  return l;
}

}  // namespace gpuplan::host
