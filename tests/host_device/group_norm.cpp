// Normalisation over groups of channels, and the gradient of batch normalisation that instance_norm calls.
#include <array>
#include <cmath>
#include <variant>

#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

Values read_or(std::span<const KernelTensor> tensors, std::size_t i, std::int64_t count, double otherwise) {
  if (i < tensors.size() && tensors[i].data != nullptr) return read(tensors[i]);
  return {{count}, std::vector<double>(static_cast<std::size_t>(count), otherwise)};
}

// Elements [first, first + size) of a contiguous copy share their statistics: those of one sample's group.
struct Groups {
  std::int64_t count, channels, area, groups;  // samples times groups; channels of a group; elements of a channel
  std::int64_t size() const { return channels * area; }
  std::int64_t channel(std::int64_t group, std::int64_t i) const { return group % groups * channels + i / area; }
};

Groups groups_of(const GroupNorm& w) { return {w.n * w.groups, w.channels / w.groups, w.area, w.groups}; }

void group_norm(const Kernel& k) {
  const auto& work = std::get<GroupNorm>(*k.what);
  const Groups g = groups_of(work);
  const Values x = read(k.reads[0]), weight = read_or(k.extra, 0, work.channels, 1);
  const Values bias = read_or(k.extra, 1, work.channels, 0);
  Values y = zeros(x.sizes), mean = zeros({g.count}), rstd = mean;
  const auto n = static_cast<double>(g.size());
  for (std::int64_t at = 0; at < g.count; ++at) {
    const std::int64_t first = at * g.size();
    double squares = 0;
    for (std::int64_t i = 0; i < g.size(); ++i) mean[at] += x[first + i] / n;
    for (std::int64_t i = 0; i < g.size(); ++i) squares += (x[first + i] - mean[at]) * (x[first + i] - mean[at]);
    rstd[at] = 1 / std::sqrt(squares / n + k.number(Attribute::eps));
    for (std::int64_t i = 0; i < g.size(); ++i) {
      const std::int64_t c = g.channel(at, i);
      y[first + i] = (x[first + i] - mean[at]) * rstd[at] * weight[c] + bias[c];
    }
  }
  write(k.writes[0], y);
  write(k.writes[1], mean);
  write(k.writes[2], rstd);
}

struct Gradients {
  Values dx, dweight, dbias;
};

// dx = rstd (g w - mean(g w) - xhat mean(g w xhat)) within each group; dweight = sum g xhat, dbias = sum g.
Gradients gradients(const Groups& g, const Values& grad, const Values& x, const Values& mean, const Values& rstd,
                    const Values& weight) {
  Gradients made{zeros(x.sizes), zeros(weight.sizes), zeros(weight.sizes)};
  const auto n = static_cast<double>(g.size());
  for (std::int64_t at = 0; at < g.count; ++at) {
    const std::int64_t first = at * g.size();
    const auto xhat = [&](std::int64_t i) { return (x[first + i] - mean[at]) * rstd[at]; };
    double of_mean = 0, of_rstd = 0;
    for (std::int64_t i = 0; i < g.size(); ++i) {
      const std::int64_t c = g.channel(at, i);
      const double d = grad[first + i];
      made.dweight[c] += d * xhat(i), made.dbias[c] += d;
      of_mean += d * weight[c] / n, of_rstd += d * weight[c] * xhat(i) / n;
    }
    for (std::int64_t i = 0; i < g.size(); ++i)
      made.dx[first + i] = rstd[at] * (grad[first + i] * weight[g.channel(at, i)] - of_mean - xhat(i) * of_rstd);
  }
  return made;
}

void write_wanted(const Kernel& k, const Gradients& made) {
  constexpr std::array kWanted{Attribute::wants_input, Attribute::wants_weight, Attribute::wants_bias};
  const std::array all{&made.dx, &made.dweight, &made.dbias};
  std::size_t result = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (k.number(kWanted[i]) != 0) write(k.writes[result++], *all[i]);
}

void group_norm_backward(const Kernel& k) {
  const auto& work = std::get<GroupNorm>(*k.what);
  const Values weight = read_or(k.reads, 4, work.channels, 1);
  write_wanted(
      k, gradients(groups_of(work), read(k.reads[0]), read(k.reads[1]), read(k.reads[2]), read(k.reads[3]), weight));
}

// Of [1, channels, ...], where every channel has moments of its own: a group each.
void batch_norm_backward(const Kernel& k) {
  const auto& work = std::get<BatchNorm>(*k.what);
  const Groups g{work.channels, 1, work.rows, work.channels};
  const Values weight = read_or(k.reads, 4, work.channels, 1);
  write_wanted(k, gradients(g, read(k.reads[0]), read(k.reads[1]), read(k.reads[2]), read(k.reads[3]), weight));
}

constexpr std::array kOperations{Operation{Operator::native_group_norm, group_norm, 1, 1},
                                 Operation{Operator::native_group_norm_backward, group_norm_backward, 4, 3},
                                 Operation{Operator::batch_norm_backward, batch_norm_backward, 4, 4}};

}  // namespace

std::span<const Operation> group_norm_operations() { return kOperations; }

}  // namespace gpuplan::host
