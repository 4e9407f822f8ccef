// Tensors of a Kernel as rows of double: read from any type and strides, written back rounded to the nearest and to
// even.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "validate/executor/kernel.h"

namespace gpuplan::host {

/// The elements in row-major order.
struct Values {
  std::vector<std::int64_t> sizes;
  std::vector<double> at;

  double& operator[](std::int64_t i) { return at[static_cast<std::size_t>(i)]; }
  double operator[](std::int64_t i) const { return at[static_cast<std::size_t>(i)]; }
  std::int64_t count() const { return static_cast<std::int64_t>(at.size()); }
};

inline std::int64_t elements(const KernelTensor& t) {
  std::int64_t n = 1;
  for (int i = 0; i < t.rank; ++i) n *= t.sizes[i];
  return n;
}
inline std::vector<std::int64_t> sizes_of(const KernelTensor& t) { return {t.sizes, t.sizes + t.rank}; }
std::int64_t product(std::span<const std::int64_t> sizes);
Values zeros(std::vector<std::int64_t> sizes);

/// Of each element, row-major, its distance from the first one, in elements.
std::vector<std::int64_t> offsets(const KernelTensor& t);

double load(const KernelTensor& t, std::int64_t offset);
void store(const KernelTensor& t, std::int64_t offset, double value);

Values read(const KernelTensor& t);
/// Repeated along dimensions of size 1 and new ones in front, as broadcasting does. Throws Error where that cannot be.
Values read(const KernelTensor& t, std::span<const std::int64_t> broadcast_to);
/// Throws Error when the numbers of elements differ.
void write(const KernelTensor& t, const Values& values);

/// A part of t: one index of a dimension, or some of its positions.
KernelTensor selected(KernelTensor t, int dim, std::int64_t at);
KernelTensor sliced(KernelTensor t, int dim, std::int64_t start, std::int64_t count, std::int64_t step = 1);
KernelTensor transposed(KernelTensor t, int first, int second);
/// [N, C, L] as [N, C, 1, L].
KernelTensor as_image(KernelTensor t);

/// "[2, 3]"
std::string shape_of(const KernelTensor& t);

}  // namespace gpuplan::host
