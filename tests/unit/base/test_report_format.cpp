#include <doctest/doctest.h>

#include <numeric>

#include "estimator/base/format.h"
#include "estimator/report/text_table.h"

using namespace gpuplan;

TEST_CASE("bytes print with three significant digits at every boundary") {
  constexpr std::int64_t kib = 1024, mib = kib * 1024, gib = mib * 1024, tib = gib * 1024;
  const std::vector<std::pair<std::int64_t, std::string>> cases = {
      {0, "0 B"},
      {1, "1 B"},
      {1023, "1023 B"},
      {kib, "1.00 KiB"},
      {kib + 5, "1.00 KiB"},  // 1.0049
      {kib + 6, "1.01 KiB"},  // 1.0059
      {10 * kib - 6, "9.99 KiB"},
      {10 * kib - 5, "10.0 KiB"},  // 9.995
      {100 * kib - 52, "99.9 KiB"},
      {100 * kib - 51, "100 KiB"},  // 99.95
      {999 * kib, "999 KiB"},
      {1000 * kib, "1000 KiB"},
      {mib - 513, "1023 KiB"},
      {mib - 512, "1.00 MiB"},  // 1023.5 KiB
      {mib, "1.00 MiB"},
      {102228128, "97.5 MiB"},  // ResNet-50's parameters: 25,557,032 x 4 B
      {gib - 1, "1.00 GiB"},
      {gib, "1.00 GiB"},
      {tib - 1, "1.00 TiB"},
      {80 * gib, "80.0 GiB"},
      {tib, "1.00 TiB"},
      {2000 * tib, "2000 TiB"},
      {INT64_MAX, "8388608 TiB"},
      {-kib, "-1.00 KiB"},
      {INT64_MIN, "-8388608 TiB"}};
  for (const auto& [bytes, text] : cases) CHECK_EQ(format_bytes(bytes), text);
}

TEST_CASE("decimal units on request") {
  CHECK_EQ(format_bytes(999, Units::si), "999 B");
  CHECK_EQ(format_bytes(1000, Units::si), "1.00 kB");
  CHECK_EQ(format_bytes(999'499, Units::si), "999 kB");
  CHECK_EQ(format_bytes(999'500, Units::si), "1.00 MB");
  CHECK_EQ(format_bytes(85'899'345'920, Units::si), "85.9 GB");
}

TEST_CASE("FLOPs are amounts, decimal") {
  CHECK_EQ(format_flops(0), "0 FLOP");
  CHECK_EQ(format_flops(999), "999 FLOP");
  CHECK_EQ(format_flops(1000), "1.00 kFLOP");
  CHECK_EQ(format_flops(8'178'368'512), "8.18 GFLOP");  // ResNet-50, one image
  CHECK_EQ(format_flops(1'555'140'968'448), "1.56 TFLOP");
  CHECK_EQ(format_flops(999'499'999), "999 MFLOP");
  CHECK_EQ(format_flops(999'500'000), "1.00 GFLOP");
  CHECK_EQ(format_flops(INT64_MAX), "9.22 EFLOP");
}

TEST_CASE("counts have thousands separators") {
  CHECK_EQ(format_count(0), "0");
  CHECK_EQ(format_count(999), "999");
  CHECK_EQ(format_count(1000), "1,000");
  CHECK_EQ(format_count(25557032), "25,557,032");
  CHECK_EQ(format_count(-1234567), "-1,234,567");
  CHECK_EQ(format_count(-123), "-123");
  CHECK_EQ(format_count(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST_CASE("tenths round half away from zero") {
  CHECK_EQ(format_tenths(in_tenths(1024 * 1024, 1024 * 1024)), "1.0");
  CHECK_EQ(format_tenths(in_tenths(51, 1024)), "0.0");
  CHECK_EQ(format_tenths(in_tenths(52, 1024)), "0.1");
  CHECK_EQ(format_tenths(in_tenths(-52, 1024)), "-0.1");
  CHECK_EQ(format_tenths(-5), "-0.5");
}

TEST_CASE("rounded rows sum to the rounded total") {
  // 3 x 0.34 = 1.02: rounded alone the rows would print 0.3 + 0.3 + 0.3 = 0.9.
  const std::vector<std::int64_t> values = {340, 340, 340};
  const std::vector<std::int64_t> tenths = tenths_that_sum(values, 1000);
  CHECK_EQ(std::accumulate(tenths.begin(), tenths.end(), std::int64_t{0}), in_tenths(1020, 1000));
  const std::vector<std::int64_t> shares = shares_per_mille(values);
  CHECK_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 1000);
  CHECK_EQ(shares_per_mille(std::vector<std::int64_t>{0, 0}), std::vector<std::int64_t>{0, 0});
  const std::vector<std::int64_t> huge = {INT64_MAX / 2, INT64_MAX / 2};
  CHECK_EQ(shares_per_mille(huge), std::vector<std::int64_t>{500, 500});
}

TEST_CASE("a table aligns by what a terminal shows") {
  TextTable table({TextTable::Align::left, TextTable::Align::right, TextTable::Align::left});
  table.row({"a×b", "1"});
  table.row({"c", "22", "x"});
  CHECK_EQ(table.text(), "  a×b   1\n  c    22  x\n");
  CHECK_EQ(table.markdown(), "| a×b | 1 |  |\n|---|---:|---|\n| c | 22 | x |\n");
}
