// Elements moved and added by their indices; fills of a part, rolls and repeats.
#include <array>
#include <bit>
#include <cmath>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

int integer(double x) { return static_cast<int>(std::lround(x)); }

int dimension(const Kernel& k) {
  const int dim = integer(k.number(Attribute::dim));
  return dim < 0 ? dim + k.reads[0].rank : dim;
}

std::int64_t position(double index, std::int64_t size) {
  if (!(index >= 0 && index < static_cast<double>(size))) throw Error("an index out of range");
  return static_cast<std::int64_t>(index);
}

void fill_in_place(const Kernel& k) {
  KernelTensor to = k.reads[0];
  const auto nth = [&](Attribute a, int i) { return integer(k.number(a, 0, i)); };
  for (int i = 0; k.has(Attribute::size, i); ++i)
    to = sliced(to, nth(Attribute::dim, i), nth(Attribute::start, i), nth(Attribute::size, i));
  Values v = zeros(sizes_of(to));
  for (double& x : v.at) x = k.number(Attribute::value);
  write(to, v);
}

// y[from(i)] = x[i] along one dimension.
template <class F>
void permuted(const Kernel& k, int dim, F&& to) {
  const Values x = read(k.reads[0]);
  Values y = zeros(x.sizes);
  const Lines l = lines(k.reads[0], dim);
  for (std::int64_t o = 0; o < l.outer; ++o)
    for (std::int64_t i = 0; i < l.size; ++i)
      for (std::int64_t in = 0; in < l.inner; ++in) y[l.index(o, to(i, l.size), in)] = x[l.index(o, i, in)];
  write(k.writes[0], y);
}

void roll(const Kernel& k) {
  permuted(k, dimension(k), [shift = std::llround(k.number(Attribute::shift))](std::int64_t i, std::int64_t size) {
    return ((i + shift) % size + size) % size;
  });
}
void flip(const Kernel& k) {
  const auto dims = static_cast<unsigned>(k.number(Attribute::dims));
  permuted(k, std::countr_zero(dims), [](std::int64_t i, std::int64_t size) { return size - 1 - i; });
}

// One dimension, as often as the result has room.
void repeat(const Kernel& k) {
  const Values x = read(k.reads[0]);
  Values y = zeros(sizes_of(k.writes[0]));
  for (std::int64_t i = 0; i < y.count(); ++i) y[i] = x[i % x.count()];
  write(k.writes[0], y);
}

// Calls f(element of the table, element of what is looked up): whole slices at index[i] of a dimension.
template <class F>
void each_slice(const KernelTensor& table, const KernelTensor& looked_up, const Values& index, int dim, F&& f) {
  const Lines in = lines(table, dim), out = lines(looked_up, dim);
  for (std::int64_t o = 0; o < out.outer; ++o)
    for (std::int64_t i = 0; i < out.size; ++i)
      for (std::int64_t n = 0; n < out.inner; ++n) f(in.index(o, position(index[i], in.size), n), out.index(o, i, n));
}

void index_select(const Kernel& k) { look_up(k, dimension(k)); }

// Into the table, reads[0], by the index, reads[2]: added or put.
void add_slices(const Kernel& k, int dim, bool adds) {
  Values table = read(k.reads[0]);
  const Values values = read(k.reads[1]);
  each_slice(k.reads[0], k.reads[1], read(k.reads[2]), dim,
             [&](std::int64_t to, std::int64_t from) { table[to] = values[from] + (adds ? table[to] : 0); });
  write(k.reads[0], table);
}
void index_add(const Kernel& k) { add_slices(k, dimension(k), true); }
void index_put_and_add(const Kernel& k) { add_slices(k, 0, true); }

// reads[0][index] = values; the index comes second, as in Python's assignment.
void index_put(const Kernel& k) {
  Values table = read(k.reads[0]);
  each_slice(k.reads[0], k.reads[2], read(k.reads[1]), 0,
             [&, values = read(k.reads[2])](std::int64_t to, std::int64_t from) { table[to] = values[from]; });
  write(k.reads[0], table);
}

// table[.., index[.., i, ..], ..] = or += values[.., i, ..]
void scatter(const Kernel& k, bool adds) {
  const KernelTensor &table = k.reads[0], &index = k.reads[2];
  const int dim = dimension(k);
  const Values values = read(k.reads[1]), at = read(index);
  for (std::int64_t i = 0; i < at.count(); ++i) {
    std::int64_t offset = 0, rest = i;
    for (int d = table.rank; d-- > 0;) {
      const std::int64_t here = rest % index.sizes[d];
      rest /= index.sizes[d];
      offset += table.strides[d] * (d == dim ? position(at[i], table.sizes[d]) : here);
    }
    store(table, offset, values[i] + (adds ? load(table, offset) : 0));
  }
}
void scatter_put(const Kernel& k) { scatter(k, false); }
void scatter_add(const Kernel& k) { scatter(k, true); }

constexpr std::array kOperations{Operation{Operator::fill_, fill_in_place, 1, 1},
                                 Operation{Operator::roll, roll, 1, 2},
                                 Operation{Operator::flip, flip, 1, 1},
                                 Operation{Operator::repeat, repeat, 1},
                                 Operation{Operator::index_select, index_select, 2, 1},
                                 Operation{Operator::index_add_, index_add, 3, 1},
                                 Operation{Operator::index_put_, index_put, 3},
                                 Operation{Operator::_index_put_impl_, index_put_and_add, 3},
                                 Operation{Operator::scatter_, scatter_put, 3, 1},
                                 Operation{Operator::scatter_add_, scatter_add, 3, 1}};

}  // namespace

void look_up(const Kernel& k, int dim) {
  const Values table = read(k.reads[0]);
  Values y = zeros(sizes_of(k.writes[0]));
  each_slice(k.reads[0], k.writes[0], read(k.reads[1]), dim,
             [&](std::int64_t from, std::int64_t to) { y[to] = table[from]; });
  write(k.writes[0], y);
}

std::span<const Operation> indexing_operations() { return kOperations; }

}  // namespace gpuplan::host
