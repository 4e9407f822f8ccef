#include <doctest/doctest.h>

#include "estimator/report/layer_table.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"
#include "tests/support/report_example.h"
#include "tests/support/test_spec.h"

namespace gpuplan {
namespace {

using testing::contains;
using tests::example_report;

StepTime example_time() {
  StepTime time;
  time.copy_seconds = 1e-3;
  time.forward_seconds = 4e-3;
  time.backward_seconds = 5e-3;
  time.memory_seconds = 6e-3;
  time.compute_seconds = 2e-3;
  time.waiting_seconds = 1e-3;
  time.bound = Bound::memory;
  time.samples = 20;
  time.flops_per_second = 3e12;
  time.peak_flops = 12e12;
  return time;
}

}  // namespace

TEST_CASE("times have three significant digits in the unit that reads best") {
  CHECK_EQ(format_seconds(0), "0.00 us");
  CHECK_EQ(format_seconds(1.234e-6), "1.23 us");
  CHECK_EQ(format_seconds(999.4e-6), "999 us");
  CHECK_EQ(format_seconds(999.6e-6), "1.00 ms");
  CHECK_EQ(format_seconds(0.03456), "34.6 ms");
  CHECK_EQ(format_seconds(9.996), "10.0 s");
  CHECK_EQ(format_seconds(119), "119 s");
  CHECK_EQ(format_seconds(120), "2.00 min");
  CHECK_EQ(format_seconds(2 * 3600), "2.00 h");
  CHECK_EQ(format_seconds(72 * 3600), "3.00 days");
  CHECK_EQ(format_figure(0.4567), "0.46");
  CHECK_EQ(format_figure(99.96), "100");
  CHECK_EQ(format_figure(12'345.6), "12,346");
  CHECK_EQ(format_flops_per_second(18.9e12), "18.9 TFLOP/s");
}

TEST_CASE("a report says how long its step takes and what it waits for") {
  Report report = example_report();
  CHECK(time_rows(report, " | ").empty());
  CHECK_FALSE(contains(report_text(report, {}), "Time"));
  tell_time(example_time(), report);
  const auto rows = time_rows(report, " | ");
  REQUIRE_EQ(rows.size(), 3);
  CHECK_EQ(rows[0][1], "10.0 ms per step | 2,000 samples/s | 60 % memory-bound | modelled");
  CHECK_EQ(rows[1][1], "copy 1.00 ms | forward 4.00 ms | backward 5.00 ms");
  CHECK_EQ(rows[2][1], "3.00 TFLOP/s, 25.0 % MFU (peak 12.0 TFLOP/s)");
  CHECK(contains(report_text(report, {}), "Time"));
  const std::string json = report_json(report, "1");
  CHECK(contains(json, "\"step_seconds\": 0.01"));
  CHECK(contains(json, "\"bound\": \"memory\""));
}

TEST_CASE("layers show their times, and modules what most of theirs waits for") {
  Report report = example_report();
  REQUIRE_GE(report.layers.size(), 2);
  StepTime time = example_time();
  time.layers.resize(report.layers.size());
  time.layers[0] = {2e-3, 3e-3, Bound::compute};
  time.layers[1] = {15e-3, 0, Bound::memory};
  tell_time(time, report);
  const std::string table = report_layers(report, {.depth = 0, .time = true});
  CHECK(contains(table, "fwd ms"));
  CHECK(contains(table, "bound"));
  CHECK(contains(table, "compute"));
  // 5 of 20 ms are a quarter.
  CHECK(contains(table, "25.0"));
  CHECK(contains(table, "75.0"));
}

}  // namespace gpuplan
