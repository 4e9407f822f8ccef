// Copies, fills, and what is made of them: concatenation, padding, the gradients of slices.
#include <array>

#include "validate/cuda/kernels/copy.h"
#include "validate/cuda/kernels/pointwise.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

void* at(const KernelTensor& t, std::int64_t element) {
  return static_cast<char*>(t.data) + element * size_of(t.dtype);
}

void run_copy(const Machine& m, const Kernel& k) { copy(m.launch, k.reads[0], k.writes[0]); }

// Numbers from the host.
void run_from_host(const Machine& m, const Kernel& k) {
  KernelTensor one = k.writes[0];
  one.rank = 0;
  for (int i = 0; k.has(Attribute::value, i); ++i) {
    one.data = at(k.writes[0], i * k.writes[0].strides[0]);
    fill(m.launch, one, k.number(Attribute::value, 0, i));
  }
}

std::string refuse_from_host(const Kernel& k) {
  const KernelTensor& t = k.writes[0];
  const bool all = t.rank == 1 && t.sizes[0] == static_cast<std::int64_t>(k.attributes.size());
  return all ? "" : "the plan does not say which numbers";
}

KernelTensor without_dimension(KernelTensor t, int dim) {
  for (int i = dim; i + 1 < t.rank; ++i) t.sizes[i] = t.sizes[i + 1], t.strides[i] = t.strides[i + 1];
  --t.rank;
  return t;
}

std::int64_t integer(const Kernel& k, Attribute a, int n = 0) { return static_cast<std::int64_t>(k.number(a, 0, n)); }

// Of each dimension that is not changed whole the part that is.
KernelTensor changed_part(const Kernel& k) {
  KernelTensor to = k.reads[0];
  for (int i = 0; k.has(Attribute::size, i); ++i) {
    const std::int64_t dim = integer(k, Attribute::dim, i);
    to.data = at(to, integer(k, Attribute::start, i) * to.strides[dim]);
    to.sizes[dim] = integer(k, Attribute::size, i);
  }
  return to;
}

// Into all of it, into a part, a slice's gradient or a selection's.
void run_copy_in_place(const Machine& m, const Kernel& k) {
  KernelTensor to = changed_part(k);
  const int dim = dimension(k, to.rank);
  if (k.has(Attribute::step)) {
    to.data = at(to, integer(k, Attribute::start) * to.strides[dim]);
    to.strides[dim] *= integer(k, Attribute::step);
    to.sizes[dim] = k.reads[1].sizes[dim];
  } else if (k.has(Attribute::index)) {
    to.data = at(to, integer(k, Attribute::index) * to.strides[dim]);
    to = without_dimension(to, dim);
  }
  copy(m.launch, k.reads[1], to);
}

void run_cat(const Machine& m, const Kernel& k) {
  KernelTensor to = k.writes[0];
  const int dim = dimension(k, to.rank);
  for (const KernelTensor& part : k.reads) {
    to.sizes[dim] = part.sizes[dim];
    copy(m.launch, part, to);
    to.data = at(to, part.sizes[dim] * to.strides[dim]);
  }
}

void run_stack(const Machine& m, const Kernel& k) {
  KernelTensor to = k.writes[0];
  const int dim = dimension(k, to.rank);
  const std::int64_t step = to.strides[dim];
  to = without_dimension(to, dim);
  for (const KernelTensor& part : k.reads) {
    copy(m.launch, part, to);
    to.data = at(to, step);
  }
}

// Negative padding cuts off.
void run_pad(const Machine& m, const Kernel& k) {
  const KernelTensor& out = k.writes[0];
  KernelTensor from = k.reads[0], to = out;
  bool grows = false;
  for (int i = 0; i < out.rank; ++i) {
    const std::int64_t before = integer(k, Attribute::before, i), after = integer(k, Attribute::after, i);
    grows = grows || before > 0 || after > 0;
    from.data = at(from, before < 0 ? -before * from.strides[i] : 0);
    to.data = at(to, before > 0 ? before * to.strides[i] : 0);
    from.sizes[i] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
    to.sizes[i] = from.sizes[i];
  }
  if (grows) fill(m.launch, out, k.number(Attribute::value));
  copy(m.launch, from, to);
}

// Zeros, and a part that is given first in every dimension.
void run_slice_backward(const Machine& m, const Kernel& k) {
  fill(m.launch, k.writes[0], 0);
  if (k.reads.empty()) return;
  KernelTensor to = k.writes[0];
  for (int i = 0; i < to.rank; ++i) to.sizes[i] = k.reads[0].sizes[i];
  copy(m.launch, k.reads[0], to);
}

void run_fill_in_place(const Machine& m, const Kernel& k) {
  fill(m.launch, changed_part(k), k.number(Attribute::value));
}

std::string refuse_number(const Kernel& k) {
  return !k.has(Attribute::value) && !k.has(Attribute::start) ? "the plan does not say with which number it fills" : "";
}

// What is shifted, and what comes around.
void run_roll(const Machine& m, const Kernel& k) {
  const int dim = dimension(k, k.reads[0].rank);
  const std::int64_t size = k.reads[0].sizes[dim];
  if (size == 0) return;
  const std::int64_t shift = (integer(k, Attribute::shift) % size + size) % size;
  for (const bool around : {false, true}) {
    KernelTensor from = k.reads[0], to = k.writes[0];
    from.sizes[dim] = to.sizes[dim] = around ? shift : size - shift;
    if (around)
      from.data = at(from, (size - shift) * from.strides[dim]);
    else
      to.data = at(to, shift * to.strides[dim]);
    copy(m.launch, from, to);
  }
}

std::string refuse_roll(const Kernel& k) {
  return !k.has(Attribute::shift) ? "the plan does not say by how much it rolls" : "";
}

// One dimension, as often as the result has room.
void run_repeat(const Machine& m, const Kernel& k) {
  const KernelTensor& from = k.reads[0];
  KernelTensor to = k.writes[0];
  to.rank = 2;
  to.sizes[0] = from.sizes[0] == 0 ? 0 : to.sizes[0] / from.sizes[0];
  to.sizes[1] = from.sizes[0];
  to.strides[1] = to.strides[0];
  to.strides[0] *= from.sizes[0];
  copy(m.launch, from, to);
}

std::string refuse_repeat(const Kernel& k) {
  return k.reads[0].rank == 1 && k.writes[0].rank == 1 ? "" : "repeats of more than one dimension";
}

std::string refuse_tril(const Kernel& k) {
  const KernelTensor &from = k.reads[0], &to = k.writes[0];
  return is_row_major(from) && is_row_major(to) && from.dtype == to.dtype ? "" : "a triangle of another layout";
}

void run_tril(const Machine& m, const Kernel& k) { tril(m.launch, k.reads[0], k.writes[0]); }

void run_nothing(const Machine&, const Kernel&) {}

template <int value>
void run_fill(const Machine& m, const Kernel& k) {
  for (const KernelTensor& t : k.writes) fill(m.launch, t, value);
}

void run_number(const Machine& m, const Kernel& k) { fill(m.launch, k.writes[0], k.number(Attribute::value)); }

void run_arange(const Machine& m, const Kernel& k) { arange(m.launch, k.writes[0], k.number(Attribute::start)); }

// cumsum's gradient runs backwards; of everything where no dimensions are given.
void run_flip(const Machine& m, const Kernel& k) {
  flip(m.launch, k.reads[0], k.writes[0], static_cast<unsigned>(k.number(Attribute::dims)));
}

std::string refuse_flip(const Kernel& k) {
  return !k.has(Attribute::dims) ? "the plan does not say which dimension it reverses" : "";
}

std::string refuse_pad(const Kernel& k) {
  return !k.has(Attribute::after, k.writes[0].rank - 1) ? "the plan does not say by how much it pads" : "";
}

std::string refuse_cat(const Kernel& k) {
  return !k.has(Attribute::dim) ? "the plan does not say along which dimension" : "";
}

constexpr std::array kOperations{Operation{Operator::to, run_copy},
                                 Operation{Operator::from_host, run_from_host, refuse_from_host},
                                 Operation{Operator::tril, run_tril, refuse_tril},
                                 Operation{Operator::_to_copy, run_copy},
                                 Operation{Operator::clone, run_copy},
                                 Operation{Operator::contiguous, run_copy},
                                 Operation{Operator::copy_, run_copy_in_place},
                                 Operation{Operator::cat, run_cat, refuse_cat},
                                 Operation{Operator::stack, run_stack, refuse_cat},
                                 Operation{Operator::constant_pad_nd, run_pad, refuse_pad},
                                 Operation{Operator::zeros, run_fill<0>},
                                 Operation{Operator::new_zeros, run_fill<0>},
                                 Operation{Operator::zeros_like, run_fill<0>},
                                 Operation{Operator::slice_backward, run_slice_backward},
                                 Operation{Operator::select_backward, run_fill<0>},
                                 Operation{Operator::ones, run_fill<1>},
                                 Operation{Operator::new_ones, run_fill<1>},
                                 Operation{Operator::ones_like, run_fill<1>},
                                 Operation{Operator::full_like, run_number, refuse_number},
                                 Operation{Operator::empty_like, run_nothing},
                                 Operation{Operator::fill_, run_fill_in_place, refuse_number},
                                 Operation{Operator::roll, run_roll, refuse_roll},
                                 Operation{Operator::repeat, run_repeat, refuse_repeat},
                                 Operation{Operator::arange, run_arange, refuse_number},
                                 Operation{Operator::flip, run_flip, refuse_flip}};
static_assert(is_whole_family(kOperations, OperatorFamily::copies));

}  // namespace

std::span<const Operation> copy_operations() { return kOperations; }

}  // namespace gpuplan::cuda
