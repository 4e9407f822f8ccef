// The layers of a report as a tree: a row for every module down to a depth, with the subtotals of what is below it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/format.h"
#include "estimator/plan/report.h"

namespace gpuplan {

enum class LayerSort : std::uint8_t { model, memory, parameters, flops, name, time };
enum class LayerColumn : std::uint8_t {
  module,
  type,
  input_shape,
  output_shape,
  parameters,
  saved,
  output,
  share,
  macs,
  forward,
  backward,
  elementwise,
  location,
  forward_time,
  backward_time,
  time_share,
  bound,
  intensity,
  rate
};

/// The words of --columns, in the order of LayerColumn.
const std::vector<std::string>& layer_column_names();

struct LayerTableOptions {
  int depth = 1;      // levels of the path; 0: all
  int max_rows = 40;  // 0: all
  LayerSort sort = LayerSort::model;
  std::vector<LayerColumn> columns = {};  // empty: the usual ones
  bool time = false;                      // the usual ones of time; the report must have it
  bool unicode = true;
  bool exact_bytes = false;
  Units units = Units::iec;
};

/// A module of the tree: a leaf layer, or everything under a common path.
struct LayerTreeRow {
  std::string name;  // own part of the path
  int depth = 1;     // 1: top level
  int leaves = 1;    // layers in it
  const LayerRow* first = nullptr;
  const LayerRow* last = nullptr;  // in order of execution; its output is the row's
  std::int64_t parameters = 0, saved_bytes = 0, output_bytes = 0;
  std::int64_t forward_macs = 0, backward_flops = 0, elementwise_flops = 0;
  std::int64_t forward_ns = 0, backward_ns = 0, busy_ns = 0;
  std::int64_t work_flops = 0, work_bytes = 0;
  std::array<std::int64_t, 3> bound_ns{};  // of its layers by what each waits for
  std::int64_t ns() const { return forward_ns + backward_ns; }
};

/// What a row counts of memory: what training keeps of it, or what it makes.
inline std::int64_t memory_of(const LayerTreeRow& row, bool training) {
  return training ? row.saved_bytes : row.output_bytes;
}

/// Rows in the order they are printed: every module before its children, siblings sorted, down to options.depth. The
/// rows of depth 1 sum to the model.
std::vector<LayerTreeRow> layer_tree(const Report& report, const LayerTableOptions& options);

/// `gpuplan layers`: heading, rows, "[N more]" where max_rows cut, total.
std::string report_layers(const Report& report, const LayerTableOptions& options);
/// The same table in Markdown.
std::string report_layers_md(const Report& report, const LayerTableOptions& options);

}  // namespace gpuplan
