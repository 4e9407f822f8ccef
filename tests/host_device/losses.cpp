// Softmax and log-softmax, the negative log-likelihood and embeddings.
#include <algorithm>
#include <array>
#include <cmath>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

int dimension(const Kernel& k) { return static_cast<int>(std::lround(k.number(Attribute::dim))); }

// Calls f(index of i) for each line of the tensor.
template <class F>
void each_line(const Lines& l, F&& f) {
  for (std::int64_t o = 0; o < l.outer; ++o)
    for (std::int64_t in = 0; in < l.inner; ++in) f([&, o, in](std::int64_t i) { return l.index(o, i, in); });
}

void softmax(const Kernel& k, bool log) {
  Values x = read(k.reads[0]);
  const Lines l = lines(k.reads[0], dimension(k));
  each_line(l, [&](auto&& at) {
    double most = x[at(0)], sum = 0;
    for (std::int64_t i = 0; i < l.size; ++i) most = std::max(most, x[at(i)]);
    for (std::int64_t i = 0; i < l.size; ++i) sum += std::exp(x[at(i)] - most);
    for (std::int64_t i = 0; i < l.size; ++i)
      x[at(i)] = log ? x[at(i)] - most - std::log(sum) : std::exp(x[at(i)] - most) / sum;
  });
  write(k.writes[0], x);
}
// Rows that are all -inf give zeros.
void safe_softmax(const Kernel& k) {
  softmax(k, false);
  const Values x = read(k.reads[0]);
  Values y = read(k.writes[0]);
  each_line(lines(k.reads[0], dimension(k)), [&](auto&& at) {
    const std::int64_t size = lines(k.reads[0], dimension(k)).size;
    bool hidden = true;
    for (std::int64_t i = 0; i < size; ++i) hidden = hidden && std::isinf(x[at(i)]) && x[at(i)] < 0;
    for (std::int64_t i = 0; hidden && i < size; ++i) y[at(i)] = 0;
  });
  write(k.writes[0], y);
}
void plain_softmax(const Kernel& k) { softmax(k, false); }
void log_softmax(const Kernel& k) { softmax(k, true); }

// y (g - sum(g y)), and of log-softmax g - e^y sum(g).
void softmax_backward(const Kernel& k, bool log) {
  const Values grad = read(k.reads[0]), y = read(k.reads[1]);
  Values dx = zeros(grad.sizes);
  const Lines l = lines(k.reads[0], dimension(k));
  each_line(l, [&](auto&& at) {
    double sum = 0;
    for (std::int64_t i = 0; i < l.size; ++i) sum += log ? grad[at(i)] : grad[at(i)] * y[at(i)];
    for (std::int64_t i = 0; i < l.size; ++i)
      dx[at(i)] = log ? grad[at(i)] - std::exp(y[at(i)]) * sum : y[at(i)] * (grad[at(i)] - sum);
  });
  write(k.writes[0], dx);
}
void plain_softmax_backward(const Kernel& k) { softmax_backward(k, false); }
void log_softmax_backward(const Kernel& k) { softmax_backward(k, true); }

// Calls f(element of the log-probabilities) for each target that counts: [N, C] or [N, C, H, W].
template <class F>
void targets(const Kernel& k, const KernelTensor& log_p, const Values& target, F&& f) {
  const Lines l = lines(log_p, 1);
  for (std::int64_t i = 0; i < target.count(); ++i) {
    const double at = target[i];
    if (at == k.number(Attribute::ignore_index)) continue;
    if (!(at >= 0 && at < static_cast<double>(l.size))) throw Error("a target that is no class");
    f(l.index(i / l.inner, static_cast<std::int64_t>(at), i % l.inner));
  }
}

void nll_loss(const Kernel& k) {
  const Values log_p = read(k.reads[0]), target = read(k.reads[1]);
  double sum = 0, count = 0;
  targets(k, k.reads[0], target, [&](std::int64_t i) { sum -= log_p[i], ++count; });
  store(k.writes[0], 0, sum / count);
  store(k.writes[1], 0, count);
}

void nll_loss_backward(const Kernel& k) {
  const double each_one = load(k.reads[0], 0) / load(k.reads[3], 0);
  Values dx = zeros(sizes_of(k.reads[1]));
  targets(k, k.reads[1], read(k.reads[2]), [&](std::int64_t i) { dx[i] = -each_one; });
  write(k.writes[0], dx);
}

std::int64_t row_of(double index, std::int64_t rows) {
  if (!(index >= 0 && index < static_cast<double>(rows))) throw Error("an index outside of the table");
  return static_cast<std::int64_t>(index);
}

void embedding(const Kernel& k) {
  const KernelTensor& table = k.reads[0];
  const Values weight = read(table), at = read(k.reads[1]);
  const std::int64_t width = table.sizes[1];
  Values y = zeros(sizes_of(k.writes[0]));
  for (std::int64_t i = 0; i < at.count(); ++i)
    for (std::int64_t c = 0; c < width; ++c) y[i * width + c] = weight[row_of(at[i], table.sizes[0]) * width + c];
  write(k.writes[0], y);
}

void embedding_backward(const Kernel& k) {
  const Values grad = read(k.reads[0]), at = read(k.reads[1]);
  const KernelTensor& table = k.writes[0];
  const std::int64_t width = table.sizes[1];
  Values dw = zeros(sizes_of(table));
  for (std::int64_t i = 0; i < at.count(); ++i)
    for (std::int64_t c = 0; c < width; ++c) dw[row_of(at[i], table.sizes[0]) * width + c] += grad[i * width + c];
  write(table, dw);
}

constexpr std::array kOperations{Operation{Operator::_softmax, plain_softmax, 1, 1},
                                 Operation{Operator::_log_softmax, log_softmax, 1, 1},
                                 Operation{Operator::_safe_softmax, safe_softmax, 1, 1},
                                 Operation{Operator::_softmax_backward_data, plain_softmax_backward, 2, 1},
                                 Operation{Operator::_log_softmax_backward_data, log_softmax_backward, 2, 1},
                                 Operation{Operator::nll_loss_forward, nll_loss, 2, 1},
                                 Operation{Operator::nll_loss2d_forward, nll_loss, 2, 1},
                                 Operation{Operator::nll_loss_backward, nll_loss_backward, 4, 1},
                                 Operation{Operator::nll_loss2d_backward, nll_loss_backward, 4, 1},
                                 Operation{Operator::embedding, embedding, 2},
                                 Operation{Operator::embedding_dense_backward, embedding_backward, 2}};

}  // namespace

std::span<const Operation> loss_operations() { return kOperations; }

}  // namespace gpuplan::host
