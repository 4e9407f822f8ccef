// Checked signed 64-bit counts. Every size, byte and FLOP in gpuplan is a std::int64_t with its unit
// in the name (`bytes`, `macs`, `elements`). Products and sums of values from a spec must use these functions,
// so that an absurd model is an Error and never an overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpuplan {

/// An id or a count as a vector's index; i >= 0.
constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
/// How many elements, as a graph's ids count them.
constexpr std::int32_t size_of_vector(const auto& v) { return static_cast<std::int32_t>(v.size()); }

/// a * b, a + b, the product of all. Throw Error ("... does not fit in 64 bits") on overflow.
std::int64_t checked_mul(std::int64_t a, std::int64_t b);
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_product(std::initializer_list<std::int64_t> factors);

/// Smallest multiple of `step` that is >= n; n >= 0, step > 0.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// a / b, rounded up; b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace gpuplan
