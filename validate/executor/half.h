// fp16 and bf16 on the host, rounded to the nearest and to even (IEEE 754), by way of double.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace gpuplan {

/// A finite double rounded to `bits` of significand at no finer a step than 2^least.
inline double rounded_to(double value, int bits, int least) {
  if (value == 0 || !std::isfinite(value)) return value;
  const auto pattern = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(pattern >> 52 & 0x7FF) - 1023;
  if (exponent > -1023 && exponent - bits >= least) {
    // Half of the last bit that stays, less one where that bit is even; a carry goes into the exponent as it should.
    const int dropped = 52 - bits;
    const std::uint64_t odd = pattern >> dropped & 1;
    const std::uint64_t up = pattern + (std::uint64_t{1} << (dropped - 1)) - 1 + odd;
    return std::bit_cast<double>(up >> dropped << dropped);
  }
  const int step = std::max(std::ilogb(value) - bits, least);
  return std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
}

inline std::uint16_t bf16_bits(double value) {
  // bf16 has fp32's exponents: its bits are the upper ones of the fp32 number that is the same value.
  if (std::isnan(value)) return 0x7FC0;
  const auto single = static_cast<float>(rounded_to(value, 7, -133));
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(single) >> 16);
}

inline double bf16_value(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

inline std::uint16_t fp16_bits(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  const double size = std::abs(rounded_to(value, 10, -24));
  if (size > 65504) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (size < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<int>(size * 0x1p24));
  const auto pattern = std::bit_cast<std::uint64_t>(size);  // eleven bits of exponent, ten that fp16 has too, zeros
  return static_cast<std::uint16_t>(sign | ((pattern >> 42) - (std::uint64_t{1023 - 15} << 10)));
}

inline double fp16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double value = std::ldexp(fraction, -24);
  if (exponent == 31) value = fraction != 0 ? std::nan("") : HUGE_VAL;
  if (exponent > 0 && exponent < 31) value = std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace gpuplan
