#include <doctest/doctest.h>

#include <sstream>

#include "estimator/report/layer_table.h"
#include "tests/support/golden.h"
#include "tests/support/report_example.h"

using namespace gpuplan;
using gpuplan::tests::check_golden;
using gpuplan::tests::example_report;

namespace {

std::vector<std::string> names_of(const std::vector<LayerTreeRow>& rows) {
  std::vector<std::string> names;
  for (const LayerTreeRow& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace

TEST_CASE("depth 1 has a row a top-level module, with subtotals") {
  const Report report = example_report();  // rows point into it
  const std::vector<LayerTreeRow> rows = layer_tree(report, {});
  CHECK_EQ(names_of(rows), std::vector<std::string>{"stage1", "head"});
  CHECK_EQ(rows[0].leaves, 3);
  CHECK_EQ(rows[0].parameters, 432 + 32);
  CHECK_EQ(rows[0].saved_bytes, 131072 + 128 + 131072);
  CHECK_EQ(rows[0].first->name, "stage1.conv");
  CHECK_EQ(rows[0].last->name, "stage1.relu");
}

TEST_CASE("deeper rows follow their module; 0 is every level") {
  for (const int depth : {2, 0})
    CHECK_EQ(names_of(layer_tree(example_report(), {.depth = depth})),
             std::vector<std::string>{"stage1", "conv", "bn", "relu", "head"});
}

TEST_CASE("siblings sort, modules stay together") {
  const auto sorted = [](LayerSort sort) { return names_of(layer_tree(example_report(), {.depth = 2, .sort = sort})); };
  CHECK_EQ(sorted(LayerSort::memory), std::vector<std::string>{"stage1", "bn", "relu", "conv", "head"});
  CHECK_EQ(sorted(LayerSort::parameters), std::vector<std::string>{"head", "stage1", "conv", "bn", "relu"});
  CHECK_EQ(sorted(LayerSort::flops), std::vector<std::string>{"stage1", "conv", "bn", "relu", "head"});
  CHECK_EQ(sorted(LayerSort::name), std::vector<std::string>{"head", "stage1", "bn", "conv", "relu"});
}

TEST_CASE("the table as printed") {
  check_golden("layers_depth1.txt", report_layers(example_report(), {}));
  check_golden("layers_all.txt", report_layers(example_report(), {.depth = 0}));
}

TEST_CASE("rows that are cut are one row, so that the top level still sums to the total") {
  const std::string text = report_layers(example_report(), {.max_rows = 1});
  CHECK_NE(text.find("[1 more rows]"), std::string::npos);
  CHECK_NE(text.find("163,850"), std::string::npos);
  CHECK_EQ(report_layers(example_report(), {.max_rows = 0}).find("more rows"), std::string::npos);
}

TEST_CASE("columns are chosen by name and order") {
  const std::string text =
      report_layers(example_report(), {.columns = {LayerColumn::macs, LayerColumn::module, LayerColumn::backward}});
  std::istringstream lines(text);
  std::string heading;
  std::getline(lines, heading);
  CHECK_EQ(heading, "        MAC  module  bwd MFLOP");
  CHECK_EQ(layer_column_names().size(), 19);
}

TEST_CASE("inference shows outputs, nothing is saved") {
  Report report = example_report();
  report.run.mode = Mode::infer;
  CHECK_NE(report_layers(report, {}).find("output KiB"), std::string::npos);
}
