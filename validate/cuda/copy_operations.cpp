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

int dimension(const Kernel& k, int rank) {
  const int dim = static_cast<int>(number(k, 0));
  return dim < 0 ? dim + rank : dim;
}

void run_copy(const Machine& m, const Kernel& k) { copy(m.launch, k.reads[0], k.writes[0]); }

// Without an operand: these numbers, from the host.
void run_to(const Machine& m, const Kernel& k) {
  if (!k.reads.empty()) return run_copy(m, k);
  KernelTensor one = k.writes[0];
  one.rank = 0;
  for (std::size_t i = 0; i < k.numbers.size(); ++i) {
    one.data = at(k.writes[0], static_cast<std::int64_t>(i) * k.writes[0].strides[0]);
    fill(m.launch, one, number(k, i));
  }
}

std::string refuse_to(const Kernel& k) {
  if (!k.reads.empty()) return "";
  const KernelTensor& t = k.writes[0];
  const bool all = t.rank == 1 && t.sizes[0] == static_cast<std::int64_t>(k.numbers.size());
  return all ? "" : "the plan does not say which numbers";
}

// copy_(to, from), of a slice's gradient with {dim, start, step}, of a selection's with {dim, position}.
void run_copy_in_place(const Machine& m, const Kernel& k) {
  KernelTensor to = k.reads[0];
  if (!k.numbers.empty()) {
    const int dim = dimension(k, to.rank);
    to.data = at(to, static_cast<std::int64_t>(number(k, 1)) * to.strides[dim]);
    if (k.numbers.size() > 2) {
      to.strides[dim] *= static_cast<std::int64_t>(number(k, 2));
      to.sizes[dim] = k.reads[1].sizes[dim];
    } else {
      for (int i = dim; i + 1 < to.rank; ++i) to.sizes[i] = to.sizes[i + 1], to.strides[i] = to.strides[i + 1];
      --to.rank;
    }
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
  for (int i = dim; i + 1 < to.rank; ++i) to.sizes[i] = to.sizes[i + 1], to.strides[i] = to.strides[i + 1];
  --to.rank;
  for (const KernelTensor& part : k.reads) {
    copy(m.launch, part, to);
    to.data = at(to, step);
  }
}

// Negative padding cuts off.
void run_pad(const Machine& m, const Kernel& k) {
  const KernelTensor& out = k.writes[0];
  const auto rank = static_cast<std::size_t>(out.rank);
  KernelTensor from = k.reads[0], to = out;
  bool grows = false;
  for (int i = 0; i < out.rank; ++i) {
    const auto before = static_cast<std::int64_t>(number(k, static_cast<std::size_t>(i)));
    const auto after = static_cast<std::int64_t>(number(k, rank + static_cast<std::size_t>(i)));
    grows = grows || before > 0 || after > 0;
    from.data = at(from, before < 0 ? -before * from.strides[i] : 0);
    to.data = at(to, before > 0 ? before * to.strides[i] : 0);
    from.sizes[i] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
    to.sizes[i] = from.sizes[i];
  }
  if (grows) fill(m.launch, out, number(k, 2 * rank));
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

// {value}, then for each dimension that is not filled whole {dim, start, count}.
void run_fill_in_place(const Machine& m, const Kernel& k) {
  KernelTensor to = k.reads[0];
  for (std::size_t i = 1; i + 2 < k.numbers.size(); i += 3) {
    const int dim = static_cast<int>(number(k, i));
    to.data = at(to, static_cast<std::int64_t>(number(k, i + 1)) * to.strides[dim]);
    to.sizes[dim] = static_cast<std::int64_t>(number(k, i + 2));
  }
  fill(m.launch, to, number(k, 0));
}

std::string refuse_number(const Kernel& k) {
  return k.numbers.empty() ? "the plan does not say with which number it fills" : "";
}

// {shift, dim}: what is shifted, and what comes around.
void run_roll(const Machine& m, const Kernel& k) {
  const int dim = static_cast<int>(number(k, 1));
  const std::int64_t size = k.reads[0].sizes[dim];
  if (size == 0) return;
  const std::int64_t shift = (static_cast<std::int64_t>(number(k, 0)) % size + size) % size;
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
  return k.numbers.size() < 2 ? "the plan does not say by how much it rolls" : "";
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

void run_number(const Machine& m, const Kernel& k) { fill(m.launch, k.writes[0], number(k, 0, 1)); }

void run_arange(const Machine& m, const Kernel& k) { arange(m.launch, k.writes[0], number(k, 0)); }

// cumsum's gradient runs backwards; of everything where no dimensions are given.
void run_flip(const Machine& m, const Kernel& k) {
  const int dim = dimension(k, k.reads[0].rank);
  flip(m.launch, k.reads[0], k.writes[0], 1U << dim);
}

std::string refuse_flip(const Kernel& k) {
  return k.numbers.empty() ? "the plan does not say which dimension it reverses" : "";
}

std::string refuse_pad(const Kernel& k) {
  const auto rank = static_cast<std::size_t>(k.writes[0].rank);
  return k.numbers.size() < 2 * rank + 1 ? "the plan does not say by how much it pads" : "";
}

std::string refuse_cat(const Kernel& k) {
  return k.numbers.empty() ? "the plan does not say along which dimension" : "";
}

constexpr std::array kOperations{Operation{"to", run_to, refuse_to},
                                 Operation{"tril", run_tril, refuse_tril},
                                 Operation{"_to_copy", run_copy},
                                 Operation{"clone", run_copy},
                                 Operation{"contiguous", run_copy},
                                 Operation{"copy_", run_copy_in_place},
                                 Operation{"cat", run_cat, refuse_cat},
                                 Operation{"stack", run_stack, refuse_cat},
                                 Operation{"constant_pad_nd", run_pad, refuse_pad},
                                 Operation{"zeros", run_fill<0>},
                                 Operation{"new_zeros", run_fill<0>},
                                 Operation{"zeros_like", run_fill<0>},
                                 Operation{"slice_backward", run_slice_backward},
                                 Operation{"select_backward", run_fill<0>},
                                 Operation{"ones", run_fill<1>},
                                 Operation{"new_ones", run_fill<1>},
                                 Operation{"ones_like", run_number},
                                 Operation{"full_like", run_number, refuse_number},
                                 Operation{"empty_like", run_nothing},
                                 Operation{"fill_", run_fill_in_place, refuse_number},
                                 Operation{"roll", run_roll, refuse_roll},
                                 Operation{"repeat", run_repeat, refuse_repeat},
                                 Operation{"arange", run_arange, refuse_number},
                                 Operation{"flip", run_flip, refuse_flip}};

}  // namespace

std::span<const Operation> copy_operations() { return kOperations; }

}  // namespace gpuplan::cuda
