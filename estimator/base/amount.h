// Amounts as people write them: a decimal number and a unit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gpuplan {

/// A unit's name and how many of the smallest unit it is.
struct AmountUnit {
  std::string_view name;
  std::int64_t size = 1;
};

/// B, KiB, MiB, GiB, TiB (binary) and kB, MB, GB, TB (decimal), in bytes.
std::span<const AmountUnit> byte_units();

/// "22 GiB", "1.5GB": in the smallest unit, a fraction of it dropped; nothing where the text is no number of at most
/// 12 digits, 6 after the point, with one of the units. "0" needs none. Throws Error (usage) where it exceeds 64 bits.
std::optional<std::int64_t> read_amount(std::string_view text, std::span<const AmountUnit> units);

/// So many hundredths of a percent of an amount, rounded down. Throws Error on overflow.
std::int64_t share_of(std::int64_t amount, std::int64_t hundredths);
/// "5 %", "0.25 %" of so many hundredths of a percent.
std::string percentage_text(std::int64_t hundredths);

}  // namespace gpuplan
