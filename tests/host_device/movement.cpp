// What fills, copies, joins, pads and looks up.
#include <algorithm>
#include <array>
#include <cmath>

#include "estimator/base/error.h"
#include "tests/host_device/operation.h"

namespace gpuplan::host {
namespace {

int integer(double x) { return static_cast<int>(std::lround(x)); }

void fill(const Kernel& k, double value) {
  for (const KernelTensor& t : k.writes) {
    Values v = zeros(sizes_of(t));
    for (double& x : v.at) x = value;
    write(t, v);
  }
}
void with_zeros(const Kernel& k) { fill(k, 0); }
void with_ones(const Kernel& k) { fill(k, 1); }
void with_number(const Kernel& k) { fill(k, k.number(Attribute::value)); }
void nothing(const Kernel&) {}

void arange(const Kernel& k) {
  Values v = zeros(sizes_of(k.writes[0]));
  for (std::int64_t i = 0; i < v.count(); ++i) v[i] = k.number(Attribute::start) + static_cast<double>(i);
  write(k.writes[0], v);
}

// Between any layouts, and shapes of as many elements: a reshape that no view is.
void copy(const Kernel& k) { write(k.writes[0], read(k.reads[0])); }

// copy_(to, from), where a slice or a selection of `to` may be meant.
void copy_into(const Kernel& k) {
  KernelTensor to = k.reads[0];
  const KernelTensor& from = k.reads[1];
  const int dim = integer(k.number(Attribute::dim));
  if (k.has(Attribute::index)) to = selected(to, dim, integer(k.number(Attribute::index)));
  if (k.has(Attribute::step))
    to = sliced(to, dim, integer(k.number(Attribute::start)), from.sizes[dim], integer(k.number(Attribute::step)));
  write(to, read(from, sizes_of(to)));
}

// Zeros; with an operand, that one first in every dimension.
void slice_backward(const Kernel& k) {
  with_zeros(k);
  if (k.reads.empty()) return;
  KernelTensor to = k.writes[0];
  for (int i = 0; i < to.rank; ++i) to = sliced(to, i, 0, k.reads[0].sizes[i]);
  write(to, read(k.reads[0]));
}

void cat(const Kernel& k) {
  const int dim = integer(k.number(Attribute::dim));
  std::int64_t start = 0;
  for (const KernelTensor& x : k.reads) {
    write(sliced(k.writes[0], dim, start, x.sizes[dim]), read(x));
    start += x.sizes[dim];
  }
}

void stack(const Kernel& k) {
  const int dim = integer(k.number(Attribute::dim));
  for (std::size_t i = 0; i < k.reads.size(); ++i)
    write(selected(k.writes[0], dim, static_cast<std::int64_t>(i)), read(k.reads[i]));
}

// Less than 0 cuts off.
void pad(const Kernel& k) {
  KernelTensor from = k.reads[0], to = k.writes[0];
  if (!k.has(Attribute::after, to.rank - 1) || k.has(Attribute::after, to.rank))
    throw Error("padding of another number of dimensions");
  fill(k, k.number(Attribute::value));
  for (int dim = 0; dim < from.rank; ++dim) {
    const int before = integer(k.number(Attribute::before, 0, dim));
    const std::int64_t first = std::max(0, -before), last = std::max(0, -integer(k.number(Attribute::after, 0, dim)));
    const std::int64_t count = from.sizes[dim] - first - last;
    from = sliced(from, dim, first, count);
    to = sliced(to, dim, std::max(0, before), count);
  }
  write(to, read(from));
}

std::int64_t position(double index, std::int64_t size) {
  if (!(index >= 0 && index < static_cast<double>(size))) throw Error("an index out of range");
  return static_cast<std::int64_t>(index);
}

// y[o, i, in] = table[o, index[o, i, in], in]
void gather(const Kernel& k) {
  const KernelTensor &table = k.reads[0], &y = k.writes[0];
  const int dim = integer(k.number(Attribute::dim));
  const Values index = read(k.reads[1]);
  Values out = zeros(index.sizes);
  const std::vector<std::int64_t> places = offsets(y);
  for (std::int64_t i = 0; i < index.count(); ++i) {
    std::int64_t offset = 0, rest = i;
    for (int d = table.rank; d-- > 0;) {
      const std::int64_t at = rest % k.reads[1].sizes[d];
      rest /= k.reads[1].sizes[d];
      offset += table.strides[d] * (d == dim ? position(index[i], table.sizes[d]) : at);
    }
    out[i] = load(table, offset);
  }
  write(y, out);
}

// table[row, column, ...] of two index tensors, copies of which it writes where they do not have the broadcast shape:
// as many as there are results before the last.
void index(const Kernel& k) {
  if (k.reads.size() == 2) return look_up(k, integer(k.number(Attribute::dim)));
  const KernelTensor &table = k.reads[0], &y = k.writes.back();
  std::vector<std::int64_t> sizes = sizes_of(y);
  sizes.resize(sizes.size() - static_cast<std::size_t>(table.rank - 2));
  KernelTensor rows = k.reads[1];
  // The row index is one a row of the result.
  if (rows.rank == 1 && sizes.size() > 1) rows.rank = 2, rows.sizes[1] = 1, rows.strides[1] = 0;
  const Values row = read(rows, sizes), column = read(k.reads[2], sizes);
  Values out = zeros(sizes_of(y));
  out.at.clear();
  for (std::int64_t i = 0; i < row.count(); ++i) {
    const std::int64_t r = table.sizes[0] == 1 ? 0 : position(row[i], table.sizes[0]);
    const Values found = read(selected(selected(table, 0, r), 0, position(column[i], table.sizes[1])));
    out.at.insert(out.at.end(), found.at.begin(), found.at.end());
  }
  if (k.writes.size() > 2) write(k.writes[0], row);
  if (k.writes.size() > 1) write(k.writes[k.writes.size() - 2], column);
  write(y, out);
}

constexpr std::array kOperations{Operation{Operator::zeros, with_zeros},
                                 Operation{Operator::new_zeros, with_zeros},
                                 Operation{Operator::select_backward, with_zeros},
                                 Operation{Operator::slice_backward, slice_backward},
                                 Operation{Operator::ones, with_ones},
                                 Operation{Operator::new_ones, with_ones},
                                 Operation{Operator::ones_like, with_ones},
                                 Operation{Operator::zeros_like, with_zeros},
                                 Operation{Operator::full_like, with_number, 0, 1},
                                 Operation{Operator::empty, nothing},
                                 Operation{Operator::empty_like, nothing},
                                 Operation{Operator::arange, arange, 0, 1},
                                 Operation{Operator::clone, copy, 1},
                                 Operation{Operator::contiguous, copy, 1},
                                 Operation{Operator::copy_, copy_into, 2},
                                 Operation{Operator::cat, cat, 1, 1},
                                 Operation{Operator::stack, stack, 1, 1},
                                 Operation{Operator::constant_pad_nd, pad, 1, 1},
                                 Operation{Operator::gather, gather, 2, 1},
                                 Operation{Operator::index, index, 2}};

}  // namespace

std::span<const Operation> movement_operations() { return kOperations; }

}  // namespace gpuplan::host
