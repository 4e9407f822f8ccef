// The lines of a search's parts, read again.
#include <doctest/doctest.h>

#include "estimator/report/read_sweep.h"
#include "estimator/report/sweep_table.h"

namespace gpuplan {
namespace {

SweepRow planned_row(std::int64_t point) {
  SweepRow row;
  row.point = point;
  row.values = {"--tp " + std::to_string(point)};
  row.figures = SweepFigures{.allocated_bytes = 1,
                             .reserved_bytes = 2,
                             .device_bytes = 3,
                             .usable_bytes = 4,
                             .limit_bytes = 5,
                             .fits = false,
                             .runs = true,
                             .retries = 6,
                             .phase = "backward",
                             .where = "loss",
                             .step_flops = 7,
                             .step_seconds = 0.1,
                             .samples_per_second = 1.0 / 3,
                             .sent_bytes = 8,
                             .communication_seconds = 2e-9,
                             .scaling_efficiency = 0.5};
  return row;
}

const AskedSearch kSearch = {"0.1.0", "gpuplan fit zoo:gpt2 --gpus 8", "32", "8", ""};

Source part(const char* name, std::vector<SweepRow> rows, std::int64_t points, const char* flag = "changes",
            const AskedSearch& search = kSearch) {
  const std::vector<std::string> names = {flag};
  return {name, sweep_json_lines(names, rows, points, search)};
}

std::string refused(const std::vector<Source>& parts) {
  try {
    (void)read_sweep_lines(parts);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

TEST_CASE("rows of parts are read as they were written") {
  SweepRow no_way;
  no_way.point = 1;
  no_way.values = {"--pp 2"};
  no_way.error = "refused";
  const std::vector<Source> parts = {part("b", {planned_row(2)}, 3), part("a", {planned_row(0), no_way}, 3)};
  const SweepLines lines = read_sweep_lines(parts);
  CHECK_EQ(lines.points, 3);
  CHECK_EQ(lines.names, std::vector<std::string>{"changes"});
  REQUIRE_EQ(lines.rows.size(), 3);
  CHECK(lines.rows[0].figures == planned_row(0).figures);
  CHECK_EQ(lines.rows[1].error, "refused");
  CHECK_FALSE(lines.rows[1].figures.has_value());
  CHECK_EQ(lines.rows[2].values, planned_row(2).values);
  CHECK_EQ(lines.places, std::vector<std::string>{"a: line 1", "a: line 2", "b: line 1"});
  CHECK(lines.search == kSearch);
  const std::vector<Source> whole = {{"whole", sweep_json_lines(lines.names, lines.rows, 3)}};
  CHECK_FALSE(read_sweep_lines(whole).search.has_value());
}

TEST_CASE("parts that are missing, given twice, or of another search are refused") {
  const Source first = part("first", {planned_row(0)}, 2), second = part("second", {planned_row(1)}, 2);
  CHECK_EQ(refused({first, second}), "");
  CHECK_EQ(refused({second}), "1 of 2 points are in none of these files, the first of them 0");
  CHECK_EQ(refused({first, part("again", {planned_row(0)}, 2)}), "first and again both have point 0");
  CHECK_EQ(refused({first, part("other", {planned_row(1)}, 3)}), "other and first are not parts of one search");
  CHECK_EQ(refused({first, part("other", {planned_row(1)}, 2, "batch")}),
           "other and first are not parts of one search");
  AskedSearch another = kSearch, newer = kSearch;
  another.command = "gpuplan fit zoo:bert_large --gpus 8";
  newer.version = "0.2.0";
  for (const AskedSearch& search : {another, newer})
    CHECK_EQ(refused({first, part("other", {planned_row(1)}, 2, "changes", search)}),
             "other and first are not parts of one search");
  SweepRow nothing;
  nothing.point = 1;
  nothing.values = {"--pp 2"};
  CHECK_EQ(refused({first, part("other", {nothing}, 2)}), "other: line 1 has neither figures nor an error");
  CHECK_EQ(refused({first, {"notes", "one\n"}}), "notes: line 1 is no line of gpuplan.sweep/1");
  CHECK_EQ(refused({{"empty", ""}}), "there is no line in these files");
}

}  // namespace
}  // namespace gpuplan
