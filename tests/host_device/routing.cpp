// What a mixture of experts is routed and computed with: the best of each row, sorted pairs, counts, and a product for
// each expert.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

// Of a row's numbers their order; equals stay in theirs.
template <class Before>
std::vector<std::int64_t> order(const Values& x, std::int64_t first, std::int64_t count, Before&& before) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(),
                   [&](std::int64_t a, std::int64_t b) { return before(x[first + a], x[first + b]); });
  return places;
}

// Along the last dimension: as many of the first ones as the results have room for, and their places.
template <class Before>
void sorted_rows(const Kernel& k, Before&& before) {
  const KernelTensor &in = k.reads[0], &out = k.writes[0];
  if (std::lround(k.number(Attribute::dim)) != in.rank - 1)
    throw Error("sorting along another dimension than the last");
  const Values x = read(in);
  Values values = zeros(sizes_of(out)), places = values;
  const std::int64_t width = in.sizes[in.rank - 1], kept = out.sizes[out.rank - 1];
  for (std::int64_t r = 0; r * width < x.count(); ++r) {
    const std::vector<std::int64_t> of_row = order(x, r * width, width, before);
    for (std::int64_t i = 0; i < kept; ++i) {
      places[r * kept + i] = static_cast<double>(of_row[static_cast<std::size_t>(i)]);
      values[r * kept + i] = x[r * width + of_row[static_cast<std::size_t>(i)]];
    }
  }
  write(k.writes[0], values);
  write(k.writes[1], places);
}
void top_k(const Kernel& k) {
  sorted_rows(k, [](double a, double b) { return a > b; });
}
void sort(const Kernel& k) {
  sorted_rows(k, [](double a, double b) { return a < b; });
}

// {least, most}: of each bin how many numbers; the greatest number is in the last one.
void count_bins(const Kernel& k) {
  Values counts = zeros(sizes_of(k.writes[0]));
  const double least = k.number(Attribute::min), most = k.number(Attribute::max);
  for (const double x : read(k.reads[0]).at) {
    if (x < least || x > most) continue;
    const auto bin = static_cast<std::int64_t>((x - least) * static_cast<double>(counts.count()) / (most - least));
    counts[std::min(bin, counts.count() - 1)] += 1;
  }
  write(k.writes[0], counts);
}

// Calls f(expert, row) for each row; ends[e] is where those of expert e end.
template <class F>
void each_row(const KernelTensor& ends, F&& f) {
  const Values end = read(ends);
  std::int64_t row = 0;
  for (std::int64_t e = 0; e < end.count(); ++e)
    for (; static_cast<double>(row) < end[e]; ++row) f(e, row);
}

// {0}: y = x w^T of each row's expert; {1}: dx = grad w; {2}: dw of each expert, grad^T x.
void grouped_product(const Kernel& k) {
  const Values a = read(k.reads[0]), b = read(k.reads[1]);
  const KernelTensor& weight = k.number(Attribute::gradient_of) == 2 ? k.writes[0] : k.reads[1];
  const std::int64_t n = weight.sizes[1], m = weight.sizes[2];
  Values y = zeros(sizes_of(k.writes[0]));
  each_row(k.reads[2], [&](std::int64_t e, std::int64_t row) {
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j) {
        const std::int64_t of_weight = (e * n + i) * m + j;
        if (k.number(Attribute::gradient_of) == 0) y[row * n + i] += a[row * m + j] * b[of_weight];
        if (k.number(Attribute::gradient_of) == 1) y[row * m + j] += a[row * n + i] * b[of_weight];
        if (k.number(Attribute::gradient_of) == 2) y[of_weight] += a[row * n + i] * b[row * m + j];
      }
  });
  write(k.writes[0], y);
}

constexpr std::array kOperations{Operation{Operator::topk, top_k, 1, 1}, Operation{Operator::sort, sort, 1, 1},
                                 Operation{Operator::histc, count_bins, 1, 2},
                                 Operation{Operator::_grouped_mm, grouped_product, 3, 1}};

}  // namespace

std::span<const Operation> routing_operations() { return kOperations; }

}  // namespace gpuplan::host
