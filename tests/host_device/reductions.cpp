// Sums, means and the like.
#include <array>
#include <cmath>

#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

// {bits of the dimensions}; the result has them as 1, or not at all.
Values summed(const Kernel& k) {
  const KernelTensor& x = k.reads[0];
  const auto mask = static_cast<unsigned>(std::lround(k.number(Attribute::dims)));
  const Values in = read(x);
  std::vector<std::int64_t> kept;
  for (int d = 0; d < x.rank; ++d) kept.push_back((mask >> d & 1U) != 0 ? 1 : x.sizes[d]);
  Values out = zeros(kept);
  for (std::int64_t i = 0; i < in.count(); ++i) {
    std::int64_t rest = i, to = 0, step = 1;
    for (int d = x.rank; d-- > 0;) {
      if ((mask >> d & 1U) == 0) to += rest % x.sizes[d] * step, step *= x.sizes[d];
      rest /= x.sizes[d];
    }
    out[to] += in[i];
  }
  return out;
}

void sum(const Kernel& k) { write(k.writes[0], summed(k)); }

void mean(const Kernel& k) {
  Values y = summed(k);
  for (double& v : y.at) v *= static_cast<double>(y.count()) / static_cast<double>(elements(k.reads[0]));
  write(k.writes[0], y);
}

void all(const Kernel& k) {
  double result = 1;
  for (const double x : read(k.reads[0]).at) result = x != 0 ? result : 0;
  store(k.writes[0], 0, result);
}

void any(const Kernel& k) {
  double result = 0;
  for (const double x : read(k.reads[0]).at) result = x != 0 ? 1 : result;
  store(k.writes[0], 0, result);
}

void cumsum(const Kernel& k) {
  Values x = read(k.reads[0]);
  const Lines l = lines(k.reads[0], static_cast<int>(std::lround(k.number(Attribute::dim))));
  for (std::int64_t o = 0; o < l.outer; ++o)
    for (std::int64_t in = 0; in < l.inner; ++in)
      for (std::int64_t i = 1; i < l.size; ++i) x[l.index(o, i, in)] += x[l.index(o, i - 1, in)];
  write(k.writes[0], x);
}

constexpr std::array kOperations{Operation{Operator::sum, sum, 1, 1}, Operation{Operator::mean, mean, 1, 1},
                                 Operation{Operator::all, all, 1}, Operation{Operator::any, any, 1},
                                 Operation{Operator::cumsum, cumsum, 1, 1}};

}  // namespace

std::span<const Operation> reduction_operations() { return kOperations; }

}  // namespace gpuplan::host
