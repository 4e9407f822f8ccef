// Fused attention: softmax(q k^T scale + mask) v, the weights after the softmax dropped out, whatever kernel PyTorch
// would run. Keys and values of fewer heads are shared by groups of query heads.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"
#include "validate/executor/random.h"

namespace gpuplan::host {
namespace {

struct Sizes {
  std::int64_t batch, heads, queries, head, key_heads, keys, value;
};

Sizes sizes(const KernelTensor& q, const KernelTensor& k, const KernelTensor& v) {
  if (q.rank != 4 || k.rank != 4 || v.rank != 4) throw Error("attention of tensors without four dimensions");
  return {q.sizes[0], q.sizes[1], q.sizes[2], q.sizes[3], k.sizes[1], k.sizes[2], v.sizes[3]};
}

struct Inputs {
  Sizes n;
  Values q, k, v, mask;
  double scale, p;
  bool causal, masked;
  std::uint64_t seed;

  std::int64_t shared(std::int64_t head) const { return head / (n.heads / n.key_heads); }
  // Elements of one row of queries, keys or values.
  const double* query(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return &q.at[static_cast<std::size_t>(((b * n.heads + h) * n.queries + i) * n.head)];
  }
  std::int64_t key(std::int64_t b, std::int64_t h, std::int64_t j) const {
    return ((b * n.key_heads + shared(h)) * n.keys + j) * n.head;
  }
  std::int64_t val(std::int64_t b, std::int64_t h, std::int64_t j) const {
    return ((b * n.key_heads + shared(h)) * n.keys + j) * n.value;
  }
  std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t i) const { return (b * n.heads + h) * n.queries + i; }
  // What dropout multiplies a weight with.
  double kept(std::int64_t row_index, std::int64_t j) const {
    if (p <= 0) return 1;
    return keeps(seed, static_cast<std::uint64_t>(row_index * n.keys + j), p) ? 1 / (1 - p) : 0;
  }
  std::vector<double> scores(std::int64_t b, std::int64_t h, std::int64_t i) const {
    std::vector<double> s(static_cast<std::size_t>(n.keys));
    for (std::int64_t j = 0; j < n.keys; ++j) {
      double sum = 0;
      for (std::int64_t d = 0; d < n.head; ++d) sum += query(b, h, i)[d] * k[key(b, h, j) + d];
      sum *= scale;
      if (masked) sum += mask[row(b, h, i) * n.keys + j];
      if (causal && j > i) sum = -std::numeric_limits<double>::infinity();
      s[static_cast<std::size_t>(j)] = sum;
    }
    return s;
  }
};

Inputs inputs(const Kernel& kernel, std::span<const KernelTensor> t) {
  const Sizes n = sizes(t[0], t[1], t[2]);
  const bool masked = t.size() > 3 && t[3].data != nullptr;
  Inputs in{n,
            read(t[0]),
            read(t[1]),
            read(t[2]),
            {},
            kernel.number(Attribute::scale),
            kernel.number(Attribute::dropout_p),
            kernel.number(Attribute::is_causal) != 0,
            masked,
            kernel.seed};
  if (masked) in.mask = read(t[3], std::array{n.batch, n.heads, n.queries, n.keys});
  return in;
}

double log_sum_exp(std::span<const double> s) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double x : s) most = std::max(most, x);
  if (std::isinf(most)) return most;
  for (const double x : s) sum += std::exp(x - most);
  return most + std::log(sum);
}

template <class F>
void each_row(const Sizes& n, F&& f) {
  for (std::int64_t b = 0; b < n.batch; ++b)
    for (std::int64_t h = 0; h < n.heads; ++h)
      for (std::int64_t i = 0; i < n.queries; ++i) f(b, h, i);
}

// Where the results of four dimensions are among what is written: seeds have [1, 1, 1, few] integers.
std::vector<KernelTensor> floating(std::span<const KernelTensor> writes) {
  std::vector<KernelTensor> found;
  for (const KernelTensor& t : writes)
    if (is_floating(t.dtype))
      found.push_back(t);
    else
      write(t, zeros(sizes_of(t)));
  return found;
}

void attention(const Kernel& kernel) {
  const Inputs in = inputs(kernel, kernel.reads);
  const std::vector<KernelTensor> results = floating(kernel.writes);
  Values out = zeros({in.n.batch, in.n.heads, in.n.queries, in.n.value});
  Values sums = results.size() > 1 ? zeros(sizes_of(results[1])) : Values{};
  const std::int64_t rows = results.size() > 1 ? results[1].sizes[2] : 0;  // the queries, rounded up
  each_row(in.n, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::vector<double> s = in.scores(b, h, i);
    const double whole = log_sum_exp(s);
    if (rows > 0) sums[(b * in.n.heads + h) * rows + i] = whole;
    for (std::int64_t j = 0; j < in.n.keys; ++j) {
      const double weight = std::isinf(whole) ? 0 : std::exp(s[static_cast<std::size_t>(j)] - whole);
      for (std::int64_t d = 0; d < in.n.value; ++d)
        out[in.row(b, h, i) * in.n.value + d] += weight * in.kept(in.row(b, h, i), j) * in.v[in.val(b, h, j) + d];
    }
  });
  write(results[0], out);
  if (rows > 0) write(results[1], sums);
}

// With w = exp(s - logsumexp) and its dropped form p: dv = p^T g, dp = g v^T, ds = w (dropped dp - g . out).
void attention_backward(const Kernel& kernel) {
  const Inputs in = inputs(kernel, kernel.extra.first(4));
  const Sizes& n = in.n;
  const Values grad = read(kernel.reads[0]), out = read(kernel.extra[4]), sums = read(kernel.extra[5]);
  const std::int64_t rows = kernel.extra[5].sizes[2];
  Values dq = zeros(in.q.sizes), dk = zeros(in.k.sizes), dv = zeros(in.v.sizes);
  Values ds = zeros({n.batch, n.heads, n.queries, n.keys});
  each_row(n, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::vector<double> s = in.scores(b, h, i);
    const std::int64_t row = in.row(b, h, i);
    const double whole = sums[(b * n.heads + h) * rows + i];
    double delta = 0;
    for (std::int64_t d = 0; d < n.value; ++d) delta += grad[row * n.value + d] * out[row * n.value + d];
    for (std::int64_t j = 0; j < n.keys; ++j) {
      const double weight = std::isinf(whole) ? 0 : std::exp(s[static_cast<std::size_t>(j)] - whole);
      const double kept = in.kept(row, j);
      double dp = 0;
      for (std::int64_t d = 0; d < n.value; ++d) {
        dp += grad[row * n.value + d] * in.v[in.val(b, h, j) + d];
        dv[in.val(b, h, j) + d] += weight * kept * grad[row * n.value + d];
      }
      const double slope = weight * (kept * dp - delta);
      ds[row * n.keys + j] = slope;
      for (std::int64_t d = 0; d < n.head; ++d) {
        dq[row * n.head + d] += slope * in.scale * in.k[in.key(b, h, j) + d];
        dk[in.key(b, h, j) + d] += slope * in.scale * in.query(b, h, i)[d];
      }
    }
  });
  write(kernel.writes[0], dq);
  write(kernel.writes[1], dk);
  write(kernel.writes[2], dv);
  if (kernel.writes.size() > 3) write(kernel.writes[3], ds);
}

// reads query, key, value, result, log-sum-exp, grad.
void fused_attention_backward(const Kernel& kernel) {
  const auto& r = kernel.reads;
  const std::array extra{r[0], r[1], r[2], KernelTensor{}, r[3], r[4]};
  Kernel as_pytorch = kernel;
  as_pytorch.reads = r.subspan(5, 1);
  as_pytorch.extra = extra;
  attention_backward(as_pytorch);
}

constexpr std::array kOperations{
    Operation{Operator::fused_attention, attention, 3, 3},
    Operation{Operator::fused_attention_backward, fused_attention_backward, 6, 3},
    Operation{Operator::_scaled_dot_product_flash_attention, attention, 3, 3},
    Operation{Operator::_scaled_dot_product_efficient_attention, attention, 3, 3},
    Operation{Operator::_scaled_dot_product_cudnn_attention, attention, 3, 3},
    Operation{Operator::_scaled_dot_product_flash_attention_backward, attention_backward, 1, 3},
    Operation{Operator::_scaled_dot_product_efficient_attention_backward, attention_backward, 1, 3},
    Operation{Operator::_scaled_dot_product_cudnn_attention_backward, attention_backward, 1, 3}};

}  // namespace

std::span<const Operation> attention_operations() { return kOperations; }

}  // namespace gpuplan::host
