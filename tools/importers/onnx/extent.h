// A size that may depend on the batch.
//
// Every size is computed twice, for two batches: what is the same for both does not depend on the batch, and what is
// not must be a multiple of it (plus a constant). Both batches are primes that no model's size is likely to be, so that
// a size of the model is not taken for the batch, nor an integer quotient of it for a constant.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan::onnx_import {

constexpr std::array<std::int64_t, 2> kBatches = {1009, 1511};

struct Extent {
  std::array<std::int64_t, 2> at{};

  Extent() = default;
  constexpr Extent(std::int64_t both) : at{both, both} {}  // NOLINT: a number is a size
  constexpr Extent(std::int64_t first, std::int64_t second) : at{first, second} {}

  constexpr bool fixed() const { return at[0] == at[1]; }
  bool operator==(const Extent&) const = default;
};

constexpr Extent batch_extent() { return {kBatches[0], kBatches[1]}; }

using Extents = std::vector<Extent>;

/// `apply` of both batches' numbers.
template <class Apply>
Extent each(const Extent& a, const Extent& b, Apply apply) {
  return {apply(a.at[0], b.at[0]), apply(a.at[1], b.at[1])};
}

inline Extent operator+(const Extent& a, const Extent& b) { return each(a, b, checked_add); }
inline Extent operator*(const Extent& a, const Extent& b) { return each(a, b, checked_mul); }

/// Product of sizes from `from` to before `to`. Throws Error on overflow.
inline Extent product(const Extents& sizes, std::size_t from, std::size_t to) {
  Extent all = 1;
  for (std::size_t i = from; i < to; ++i) all = all * sizes[i];
  return all;
}
inline Extent product(const Extents& sizes) { return product(sizes, 0, sizes.size()); }

/// "224", "N", "2*N + 1"; "?" for what is neither.
inline std::string to_string(const Extent& e) {
  if (e.fixed()) return std::to_string(e.at[0]);
  const std::int64_t step = kBatches[1] - kBatches[0];
  std::int64_t span = 0, with_batch = 0, rest = 0;  // numbers of a file may be any
  if (__builtin_sub_overflow(e.at[1], e.at[0], &span) || span % step != 0) return "?";
  const std::int64_t factor = span / step;
  if (__builtin_mul_overflow(factor, kBatches[0], &with_batch) || __builtin_sub_overflow(e.at[0], with_batch, &rest))
    return "?";
  const std::string text = factor == 1 ? "N" : std::to_string(factor) + "*N";
  if (rest == 0) return text;
  return text + (rest < 0 ? " - " + std::to_string(rest).substr(1) : " + " + std::to_string(rest));
}

inline std::string to_string(const Extents& sizes) {
  std::string text = "[";
  for (const Extent& e : sizes) text += (text.size() > 1 ? ", " : "") + to_string(e);
  return text + "]";
}

}  // namespace gpuplan::onnx_import
