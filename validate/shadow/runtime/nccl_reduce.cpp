#include "validate/shadow/runtime/nccl_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace gpuplan::shadow {
namespace {

// A binary floating-point format of up to 16 bits. OCP's E4M3 has no infinity: all ones is NaN, and the exponent of
// all ones is an ordinary one.
template <typename Bits, int Exponent, int Mantissa, bool Infinity = true>
struct Small {
  using Stored = Bits;
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr unsigned kTop = (1U << Exponent) - 1;
  static constexpr unsigned kFraction = (1U << Mantissa) - 1;
  static constexpr unsigned kNan = Infinity ? kTop << Mantissa | 1U << (Mantissa - 1) : kTop << Mantissa | kFraction;

  static double load(Bits bits) {
    const unsigned magnitude = bits & ((1U << (Exponent + Mantissa)) - 1);
    const unsigned exponent = magnitude >> Mantissa, fraction = magnitude & kFraction;
    double value = 0;
    if (Infinity && exponent == kTop) {
      value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    } else if (!Infinity && magnitude == kNan) {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (exponent == 0) {
      value = std::ldexp(fraction, 1 - kBias - Mantissa);
    } else {
      value = std::ldexp(fraction + (1U << Mantissa), static_cast<int>(exponent) - kBias - Mantissa);
    }
    return bits >> (Exponent + Mantissa) != 0 ? -value : value;
  }

  // Rounds to nearest, ties to even.
  static Bits store(double value) {
    const unsigned sign = std::signbit(value) ? 1U << (Exponent + Mantissa) : 0;
    if (std::isnan(value)) return static_cast<Bits>(sign | kNan);
    const double magnitude = std::fabs(value);
    constexpr unsigned kOverflow = Infinity ? kTop << Mantissa : kNan;
    if (std::isinf(magnitude)) return static_cast<Bits>(sign | kOverflow);
    int exponent = 1 - kBias;  // of subnormal numbers
    if (magnitude > 0) exponent = std::max(exponent, std::ilogb(magnitude));
    const double scaled = std::nearbyint(std::ldexp(magnitude, Mantissa - exponent));  // fits a double exactly
    // An exponent one too low and a mantissa of 2^(Mantissa+1) are the same bits as the next exponent and zero.
    const auto steps = static_cast<std::uint64_t>(scaled);
    const std::uint64_t bits = (static_cast<std::uint64_t>(exponent - (1 - kBias)) << Mantissa) + steps;
    return static_cast<Bits>(sign | static_cast<unsigned>(std::min<std::uint64_t>(bits, kOverflow)));
  }
};

using Half = Small<std::uint16_t, 5, 10>;
using Bfloat = Small<std::uint16_t, 8, 7>;
using E4m3 = Small<std::uint8_t, 4, 3, false>;
using E5m2 = Small<std::uint8_t, 5, 2>;

template <typename T>
struct Plain {
  using Stored = T;
  static auto load(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(value);
    } else {
      return value;
    }
  }
  template <typename V>
  static T store(V value) {
    return static_cast<T>(value);
  }
};

// Calls visit with the format of `type`.
template <typename F>
void with_format(int type, F&& visit) {
  switch (type) {
    case kNcclInt8: return visit(Plain<std::int8_t>());
    case kNcclUint8: return visit(Plain<std::uint8_t>());
    case kNcclInt32: return visit(Plain<std::int32_t>());
    case kNcclUint32: return visit(Plain<std::uint32_t>());
    case kNcclInt64: return visit(Plain<std::int64_t>());
    case kNcclUint64: return visit(Plain<std::uint64_t>());
    case kNcclFloat16: return visit(Half());
    case kNcclFloat32: return visit(Plain<float>());
    case kNcclFloat64: return visit(Plain<double>());
    case kNcclBfloat16: return visit(Bfloat());
    case kNcclFloat8e4m3: return visit(E4m3());
    case kNcclFloat8e5m2: return visit(E5m2());
    default: return;
  }
}

// Integers wrap as unsigned ones do, without the undefined behaviour of signed overflow.
template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename T>
T scaled(T value, double factor) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kLimit = 9223372036854775808.0;  // 2^63: beyond it no conversion is defined
    const bool fits = factor >= -kLimit && factor < kLimit;
    return multiply(value, static_cast<T>(fits ? static_cast<std::int64_t>(factor) : 0));
  } else {
    return value * factor;
  }
}

template <typename T>
T combine(int kind, T a, T b) {
  switch (kind) {
    case kNcclProduct: return multiply(a, b);
    case kNcclMaximum: return a < b ? b : a;
    case kNcclMinimum: return b < a ? b : a;
    default: return add(a, b);
  }
}

template <typename T>
T averaged(T sum, std::size_t ranks) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;  // 256 ranks are 0 in a byte
    return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(ranks));
  } else {
    return sum / static_cast<double>(ranks);
  }
}

template <typename Format>
auto load_at(const std::byte* array, std::size_t index) {
  typename Format::Stored stored{};
  if (array != nullptr) std::memcpy(&stored, array + index * sizeof stored, sizeof stored);
  return Format::load(stored);
}

template <typename Format, typename V>
void store_at(std::byte* array, std::size_t index, V value) {
  const typename Format::Stored stored = Format::store(value);
  std::memcpy(array + index * sizeof stored, &stored, sizeof stored);
}

}  // namespace

void reduce(std::span<const std::byte* const> contributions, std::size_t count, int type, Reduction reduction,
            std::byte* result) {
  with_format(type, [&]<typename Format>(Format) {
    for (std::size_t i = 0; i < count; ++i) {
      auto value = scaled(load_at<Format>(contributions.front(), i), reduction.factor);
      for (const std::byte* const other : contributions.subspan(1)) {
        value = combine(reduction.kind, value, scaled(load_at<Format>(other, i), reduction.factor));
      }
      if (reduction.kind == kNcclAverage) value = averaged(value, contributions.size());
      store_at<Format>(result, i, value);
    }
  });
}

void reduce_alike(const std::byte* own, int ranks, std::size_t count, int type, Reduction reduction,
                  std::byte* result) {
  with_format(type, [&]<typename Format>(Format) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto one = scaled(load_at<Format>(own, i), reduction.factor);
      auto value = one;
      if (reduction.kind == kNcclSum) value = scaled(one, ranks);
      if (reduction.kind == kNcclProduct) {
        for (int rank = 1; rank < ranks; ++rank) value = multiply(value, one);
      }
      store_at<Format>(result, i, value);
    }
  });
}

double read_element(const std::byte* element, int type) {
  double value = 0;
  with_format(type, [&]<typename Format>(Format) { value = static_cast<double>(load_at<Format>(element, 0)); });
  return value;
}

}  // namespace gpuplan::shadow
