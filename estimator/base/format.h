// Numbers as people read them. Integer arithmetic only: the same text on every machine and in every locale.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

enum class Units : std::uint8_t { iec, si };

/// "0 B", "512 B", "1.00 KiB", "97.5 MiB", "5.80 GiB": three significant digits, halves away from zero; si: "6.23 GB".
std::string format_bytes(std::int64_t bytes, Units units = Units::iec);
/// "8.18 GFLOP": an amount, decimal, three significant digits. Never a rate.
std::string format_flops(std::int64_t flops);
/// "25,557,032"
std::string format_count(std::int64_t n);
/// "1 retry", "2 retries": how often the allocator gave its cache back and asked again.
std::string retries_text(std::int64_t n);
/// "64×3×224×224"; ascii: "64x3x224x224".
std::string format_sizes(std::span<const std::int64_t> sizes, bool unicode);

/// The unit of a whole column, so that its rows can be compared and added.
struct ColumnUnit {
  std::string_view name;
  std::int64_t bytes = 1;
};
/// Fits `largest` bytes: KiB below 10 MiB, MiB below 100,000 MiB, else GiB (kB, MB, GB).
ColumnUnit column_unit(std::int64_t largest, Units units = Units::iec);

/// value / unit in tenths, rounded half away from zero.
std::int64_t in_tenths(std::int64_t value, std::int64_t unit);
/// "5573.8" from tenths.
std::string format_tenths(std::int64_t tenths);
/// Each value / unit in tenths, rounded so that the printed rows sum to the printed total (largest remainder). All
/// values
/// >= 0.
std::vector<std::int64_t> tenths_that_sum(std::span<const std::int64_t> values, std::int64_t unit);
/// Shares in tenths of a percent that sum to 1000, or all 0 when the values sum to 0. All values >= 0.
std::vector<std::int64_t> shares_per_mille(std::span<const std::int64_t> values);

/// Columns a terminal shows: UTF-8 code points.
std::size_t display_width(std::string_view text);

}  // namespace gpuplan
