// Batch, layer and RMS normalisation.
#include <array>
#include <cmath>
#include <variant>

#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

bool given(std::span<const KernelTensor> tensors, std::size_t i) { return i < tensors.size() && tensors[i].data; }

Values read_or(std::span<const KernelTensor> tensors, std::size_t i, std::int64_t count, double otherwise) {
  if (given(tensors, i)) return read(tensors[i]);
  Values v = zeros({count});
  for (double& x : v.at) x = otherwise;
  return v;
}

struct Moments {
  double mean = 0, variance = 0;  // biased
};

template <class At>
Moments moments(std::int64_t count, At&& at) {
  Moments m;
  for (std::int64_t i = 0; i < count; ++i) m.mean += at(i);
  m.mean /= static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) m.variance += (at(i) - m.mean) * (at(i) - m.mean);
  m.variance /= static_cast<double>(count);
  return m;
}

// running = (1 - momentum) running + momentum now, with the unbiased variance.
void update_running(const Kernel& k, const std::vector<Moments>& now, std::int64_t count) {
  if (!given(k.extra, 2) || !given(k.extra, 3)) return;
  const double momentum = k.number(Attribute::momentum), n = static_cast<double>(count);
  Values mean = read(k.extra[2]), variance = read(k.extra[3]);
  for (std::size_t c = 0; c < now.size(); ++c) {
    mean.at[c] += momentum * (now[c].mean - mean.at[c]);
    variance.at[c] += momentum * (now[c].variance * n / (n - 1) - variance.at[c]);
  }
  write(k.extra[2], mean);
  write(k.extra[3], variance);
}

void batch_norm(const Kernel& k) {
  const KernelTensor& x = k.reads[0];
  const Lines l = lines(x, 1);
  const std::int64_t count = l.outer * l.inner;
  const double eps = k.number(Attribute::eps);
  const bool training = std::get<BatchNorm>(*k.what).training;
  const Values in = read(x), weight = read_or(k.extra, 0, l.size, 1), bias = read_or(k.extra, 1, l.size, 0);
  const Values running_mean = read_or(k.extra, 2, l.size, 0), running_variance = read_or(k.extra, 3, l.size, 1);
  Values y = zeros(in.sizes), mean = zeros({l.size}), invstd = mean;
  std::vector<Moments> all;
  for (std::int64_t c = 0; c < l.size; ++c) {
    const auto at = [&](std::int64_t i) { return l.index(i / l.inner, c, i % l.inner); };
    const Moments m = training ? moments(count, [&](std::int64_t i) { return in[at(i)]; })
                               : Moments{running_mean[c], running_variance[c]};
    all.push_back(m);
    mean[c] = m.mean;
    invstd[c] = 1 / std::sqrt(m.variance + eps);
    for (std::int64_t i = 0; i < count; ++i) y[at(i)] = (in[at(i)] - m.mean) * invstd[c] * weight[c] + bias[c];
  }
  if (training) update_running(k, all, count);
  write(k.writes[0], y);
  if (k.writes.size() > 2) write(k.writes[1], mean), write(k.writes[2], invstd);
}

struct BatchNormBackward {
  const KernelTensor &x, &grad;
  std::array<std::size_t, 3> results;  // where dx, dweight and dbias are
};

// With batch statistics dx = w invstd (g - mean(g) - xhat mean(g xhat)), else w invstd g.
void batch_norm_backward(const Kernel& k, const BatchNormBackward& of) {
  const Lines l = lines(of.x, 1);
  const std::int64_t count = l.outer * l.inner;
  const bool training = std::get<BatchNorm>(*k.what).training;
  const Values x = read(of.x), grad = read(of.grad), weight = read_or(k.extra, 0, l.size, 1);
  Values mean = read_or(k.extra, training ? 1 : 3, l.size, 0), invstd = read_or(k.extra, training ? 2 : 4, l.size, 1);
  if (!training)
    for (double& v : invstd.at) v = 1 / std::sqrt(v + k.number(Attribute::eps));
  Values dx = zeros(x.sizes), dweight = zeros({l.size}), dbias = dweight;
  for (std::int64_t c = 0; c < l.size; ++c) {
    const auto at = [&](std::int64_t i) { return l.index(i / l.inner, c, i % l.inner); };
    const auto xhat = [&](std::int64_t i) { return (x[at(i)] - mean[c]) * invstd[c]; };
    for (std::int64_t i = 0; i < count; ++i) dbias[c] += grad[at(i)], dweight[c] += grad[at(i)] * xhat(i);
    const double n = static_cast<double>(count), of_mean = training ? dbias[c] / n : 0,
                 of_invstd = training ? dweight[c] / n : 0;
    for (std::int64_t i = 0; i < count; ++i)
      dx[at(i)] = weight[c] * invstd[c] * (grad[at(i)] - of_mean - xhat(i) * of_invstd);
  }
  write(k.writes[of.results[0]], dx);
  write(k.writes[of.results[1]], dweight);
  write(k.writes[of.results[2]], dbias);
}

void cudnn_batch_norm_backward(const Kernel& k) { batch_norm_backward(k, {k.reads[0], k.reads[1], {0, 1, 2}}); }
void native_batch_norm_backward(const Kernel& k) {
  const bool rows = std::get<BatchNorm>(*k.what).native_rows;
  batch_norm_backward(
      k, {k.reads[1], k.reads[0], rows ? std::array<std::size_t, 3>{2, 0, 1} : std::array<std::size_t, 3>{0, 1, 2}});
}

// Over rows of `columns` elements; RMS norm has a mean of 0.
void rows_norm(const Kernel& k, bool centred) {
  const auto& work = std::get<LayerNorm>(*k.what);
  const std::int64_t n = work.columns;
  const Values x = read(k.reads[0]), weight = read_or(k.extra, 0, n, 1), bias = read_or(k.extra, 1, n, 0);
  Values y = zeros(x.sizes), mean = zeros({work.rows}), rstd = mean;
  for (std::int64_t r = 0; r < work.rows; ++r) {
    Moments m = moments(n, [&](std::int64_t i) { return x[r * n + i]; });
    if (!centred) m = {0, m.variance + m.mean * m.mean};
    mean[r] = m.mean;
    rstd[r] = 1 / std::sqrt(m.variance + k.number(Attribute::eps));
    for (std::int64_t i = 0; i < n; ++i) y[r * n + i] = (x[r * n + i] - m.mean) * rstd[r] * weight[i] + bias[i];
  }
  write(k.writes[0], y);
  if (centred && k.writes.size() > 1) write(k.writes[1], mean);
  if (k.writes.size() > 1) write(k.writes.back(), rstd);
}

// dx = rstd (g w - mean(g w) - xhat mean(g w xhat)); RMS norm without the middle term.
void rows_norm_backward(const Kernel& k, bool centred) {
  const auto& work = std::get<LayerNorm>(*k.what);
  const std::int64_t n = work.columns;
  const std::size_t statistics = centred ? 2 : 1;  // how many
  const Values grad = read(k.reads[0]), x = read(k.reads[1]);
  const Values mean = centred ? read(k.reads[2]) : zeros({work.rows}), rstd = read(k.reads[1 + statistics]);
  const Values weight = read_or(k.reads, 2 + statistics, n, 1);
  Values dx = zeros(x.sizes), dweight = zeros({n}), dbias = dweight;
  for (std::int64_t r = 0; r < work.rows; ++r) {
    double of_mean = 0, of_rstd = 0;
    const auto xhat = [&](std::int64_t i) { return (x[r * n + i] - mean[r]) * rstd[r]; };
    for (std::int64_t i = 0; i < n; ++i) {
      const double g = grad[r * n + i];
      dbias[i] += g, dweight[i] += g * xhat(i);
      of_mean += centred ? g * weight[i] : 0, of_rstd += g * weight[i] * xhat(i);
    }
    for (std::int64_t i = 0; i < n; ++i)
      dx[r * n + i] = rstd[r] * (grad[r * n + i] * weight[i] - (of_mean + xhat(i) * of_rstd) / static_cast<double>(n));
  }
  if (given(k.extra, 0)) write(k.extra[0], dx);
  if (given(k.extra, 1)) write(k.extra[1], dweight);
  if (given(k.extra, 2)) write(k.extra[2], dbias);
}

void layer_norm(const Kernel& k) { rows_norm(k, true); }
void rms_norm(const Kernel& k) { rows_norm(k, false); }
// rms_norm's goes by layer norm's name: it has one statistic a row, so one operand less.
bool centred(const Kernel& k) { return k.reads.size() > 3 && k.reads[3].rank == k.reads[2].rank; }
void layer_norm_backward(const Kernel& k) { rows_norm_backward(k, centred(k)); }

constexpr std::array kOperations{Operation{Operator::batch_norm, batch_norm, 1, 2},
                                 Operation{Operator::cudnn_batch_norm_backward, cudnn_batch_norm_backward, 3, 1},
                                 Operation{Operator::native_batch_norm_backward, native_batch_norm_backward, 2, 1},
                                 Operation{Operator::native_layer_norm, layer_norm, 1, 1},
                                 Operation{Operator::native_layer_norm_backward, layer_norm_backward, 3},
                                 Operation{Operator::_fused_rms_norm, rms_norm, 1, 1}};

}  // namespace

std::span<const Operation> normalisation_operations() { return kOperations; }

}  // namespace gpuplan::host
