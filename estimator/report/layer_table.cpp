#include "estimator/report/layer_table.h"

#include <algorithm>
#include <array>

#include "estimator/base/integers.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"

namespace gpuplan {

namespace {

bool is_training(const Report& report) { return report.run.mode == Mode::train; }

// Inference saves nothing: what a layer costs is then its output.

// What most of its time waits for.
std::string bound_of(const LayerTreeRow& row) {
  if (row.ns() == 0) return "";
  return std::string(name_of(static_cast<Bound>(std::ranges::max_element(row.bound_ns) - row.bound_ns.begin())));
}

std::string intensity_of(const LayerTreeRow& row) {
  if (row.work_flops == 0 || row.work_bytes == 0) return "";
  return format_figure(static_cast<double>(row.work_flops) / static_cast<double>(row.work_bytes));
}

// While its kernels run.
std::string rate_of(const LayerTreeRow& row) {
  if (row.work_flops == 0 || row.busy_ns == 0) return "";
  return format_flops_per_second(static_cast<double>(row.work_flops) / (1e-9 * static_cast<double>(row.busy_ns)));
}

struct ColumnStyle {
  std::string_view word;
  TextTable::Align align;
};
constexpr std::array<ColumnStyle, 19> kColumns = {{{"module", kLeft},
                                                   {"type", kLeft},
                                                   {"in", kLeft},
                                                   {"out", kLeft},
                                                   {"params", kRight},
                                                   {"saved", kRight},
                                                   {"output", kRight},
                                                   {"share", kRight},
                                                   {"macs", kRight},
                                                   {"fwd", kRight},
                                                   {"bwd", kRight},
                                                   {"elementwise", kRight},
                                                   {"yaml", kLeft},
                                                   {"fwd-time", kRight},
                                                   {"bwd-time", kRight},
                                                   {"time", kRight},
                                                   {"bound", kLeft},
                                                   {"intensity", kRight},
                                                   {"rate", kRight}}};

std::vector<LayerColumn> usual_columns(bool training, bool time) {
  using enum LayerColumn;
  if (time && training)
    return {module, output_shape, forward_time, backward_time, time_share, bound, intensity, rate, location};
  if (time) return {module, output_shape, forward_time, time_share, bound, intensity, rate, location};
  if (training) return {module, output_shape, parameters, saved, share, forward, location};
  return {module, output_shape, parameters, output, share, forward, location};
}

// One column's figure for every row in tenths. The top-level rows share the rounding, so that what is printed sums to
// the printed total; the last row is that total.
template <class Key>
std::vector<std::int64_t> column_tenths(const std::vector<LayerTreeRow>& rows, std::int64_t unit, Key key) {
  std::vector<std::int64_t> top;
  for (const LayerTreeRow& row : rows)
    if (row.depth == 1) top.push_back(key(row));
  const std::vector<std::int64_t> shared = tenths_that_sum(top, unit);
  std::vector<std::int64_t> tenths;
  std::size_t next = 0;
  for (const LayerTreeRow& row : rows) tenths.push_back(row.depth == 1 ? shared[next++] : in_tenths(key(row), unit));
  return tenths;
}

// The same in tenths of a percent of the total.
template <class Key>
std::vector<std::int64_t> column_shares(const std::vector<LayerTreeRow>& rows, Key key) {
  const std::int64_t total = key(rows.back());
  std::vector<std::int64_t> top;
  for (const LayerTreeRow& row : rows)
    if (row.depth == 1) top.push_back(key(row));
  const std::vector<std::int64_t> shared = shares_per_mille(top);
  std::vector<std::int64_t> shares;
  std::size_t next = 0;
  for (const LayerTreeRow& row : rows) {
    const std::vector<std::int64_t> parts = {key(row), total - key(row)};
    shares.push_back(row.depth == 1 ? shared[next++] : shares_per_mille(parts)[0]);
  }
  return shares;
}

class TableWriter {
 public:
  /// `rows` ends with the total, at depth 0.
  TableWriter(const std::vector<LayerTreeRow>& rows, const LayerTableOptions& options, bool training)
      : rows_(rows), options_(options), training_(training), columns_(options.columns) {
    if (columns_.empty()) columns_ = usual_columns(training_, options.time);
    const LayerTreeRow& total = rows.back();
    unit_ = column_unit(memory_of(total, training_), options.units);
    time_unit_ = total.ns() < 10'000'000 ? 1'000 : 1'000'000;
    flop_unit_ = total.forward_macs < 500'000'000 ? 1'000'000 : 1'000'000'000;
  }

  TextTable table() const;

 private:
  std::string heading(LayerColumn column) const;
  std::vector<std::string> cells(LayerColumn column) const;
  template <class Key>
  std::vector<std::string> figures(std::int64_t unit, Key key) const;
  template <class Key>
  std::vector<std::string> bytes(Key key) const;
  template <class Key>
  std::vector<std::string> shares(Key key) const;
  template <class Word>
  std::vector<std::string> words(Word word) const;
  std::string sizes(const Shape& shape) const { return format_sizes(shape.sizes(), options_.unicode); }

  const std::vector<LayerTreeRow>& rows_;
  const LayerTableOptions& options_;
  bool training_;
  std::vector<LayerColumn> columns_;
  ColumnUnit unit_;
  std::int64_t flop_unit_ = 1, time_unit_ = 1;
};

std::string TableWriter::heading(LayerColumn column) const {
  const std::string unit = options_.exact_bytes ? "bytes" : std::string(unit_.name);
  const std::string flop = flop_unit_ == 1'000'000 ? "MFLOP" : "GFLOP";
  const std::string time = time_unit_ == 1'000 ? "us" : "ms";
  switch (column) {
    case LayerColumn::input_shape: return "in shape";
    case LayerColumn::output_shape: return "out shape";
    case LayerColumn::saved: return "saved " + unit;
    case LayerColumn::output: return "output " + unit;
    case LayerColumn::share:
    case LayerColumn::time_share: return "%";
    case LayerColumn::forward_time: return "fwd " + time;
    case LayerColumn::backward_time: return "bwd " + time;
    case LayerColumn::macs: return "MAC";
    case LayerColumn::forward: return "fwd " + flop;
    case LayerColumn::backward: return "bwd " + flop;
    case LayerColumn::elementwise: return "elementwise " + flop;
    case LayerColumn::intensity: return "FLOP/byte";
    case LayerColumn::rate: return "a second";
    default: return std::string(kColumns[static_cast<std::size_t>(column)].word);
  }
}

template <class Key>
std::vector<std::string> TableWriter::figures(std::int64_t unit, Key key) const {
  std::vector<std::string> out;
  for (const std::int64_t tenths : column_tenths(rows_, unit, key)) out.push_back(format_tenths(tenths));
  return out;
}

template <class Key>
std::vector<std::string> TableWriter::bytes(Key key) const {
  if (!options_.exact_bytes) return figures(unit_.bytes, key);
  return words([&](const LayerTreeRow& row) { return format_count(key(row)); });
}

template <class Key>
std::vector<std::string> TableWriter::shares(Key key) const {
  std::vector<std::string> out;
  for (const std::int64_t share : column_shares(rows_, key)) out.push_back(format_tenths(share));
  return out;
}

template <class Word>
std::vector<std::string> TableWriter::words(Word word) const {
  std::vector<std::string> out;
  for (const LayerTreeRow& row : rows_) out.push_back(word(row));
  return out;
}

std::vector<std::string> TableWriter::cells(LayerColumn column) const {
  using Row = const LayerTreeRow&;
  const auto memory = [this](Row row) { return memory_of(row, training_); };
  switch (column) {
    case LayerColumn::module:
      return words([](Row row) {
        return std::string(static_cast<std::size_t>(std::max(row.depth - 1, 0)) * 2, ' ') + row.name;
      });
    case LayerColumn::type: return words([](Row row) { return row.leaves == 1 ? std::string(row.last->type) : ""; });
    case LayerColumn::input_shape:
      return words([this](Row row) {
        return row.first == nullptr || row.first->input_shapes.empty() ? "" : sizes(row.first->input_shapes[0]);
      });
    case LayerColumn::output_shape:
      return words([this](Row row) { return row.last == nullptr ? "" : sizes(row.last->output_shape); });
    case LayerColumn::parameters: return words([](Row row) { return format_count(row.parameters); });
    case LayerColumn::saved: return bytes([](Row row) { return row.saved_bytes; });
    case LayerColumn::output: return bytes([](Row row) { return row.output_bytes; });
    case LayerColumn::share: return shares(memory);
    case LayerColumn::forward_time: return figures(time_unit_, [](Row row) { return row.forward_ns; });
    case LayerColumn::backward_time: return figures(time_unit_, [](Row row) { return row.backward_ns; });
    case LayerColumn::time_share: return shares([](Row row) { return row.ns(); });
    case LayerColumn::bound: return words([](Row row) { return bound_of(row); });
    case LayerColumn::intensity: return words([](Row row) { return intensity_of(row); });
    case LayerColumn::rate: return words([](Row row) { return rate_of(row); });
    case LayerColumn::macs: return words([](Row row) { return format_count(row.forward_macs); });
    case LayerColumn::forward: return figures(flop_unit_, [](Row row) { return checked_mul(2, row.forward_macs); });
    case LayerColumn::backward: return figures(flop_unit_, [](Row row) { return row.backward_flops; });
    case LayerColumn::elementwise: return figures(flop_unit_, [](Row row) { return row.elementwise_flops; });
    case LayerColumn::location:
      return words([](Row row) { return row.first == nullptr ? "" : ":" + std::to_string(row.first->line); });
  }
  return {};
}

TextTable TableWriter::table() const {
  std::vector<TextTable::Align> aligns;
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> columns;
  for (const LayerColumn column : columns_) {
    aligns.push_back(kColumns[static_cast<std::size_t>(column)].align);
    heads.push_back(heading(column));
    columns.push_back(cells(column));
  }
  TextTable table(aligns);
  table.row(heads);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::vector<std::string> line;
    for (const auto& column : columns) line.push_back(column[r]);
    table.row(line);
  }
  return table;
}

// Sums the top-level rows; the places are not summed.
LayerTreeRow sum_top_level(const std::vector<LayerTreeRow>& rows, std::size_t from, std::string name) {
  LayerTreeRow sum{.name = std::move(name), .leaves = 0};
  for (std::size_t i = from; i < rows.size(); ++i) {
    if (rows[i].depth != 1) continue;
    sum.parameters = checked_add(sum.parameters, rows[i].parameters);
    sum.saved_bytes = checked_add(sum.saved_bytes, rows[i].saved_bytes);
    sum.output_bytes = checked_add(sum.output_bytes, rows[i].output_bytes);
    sum.forward_macs = checked_add(sum.forward_macs, rows[i].forward_macs);
    sum.backward_flops = checked_add(sum.backward_flops, rows[i].backward_flops);
    sum.elementwise_flops = checked_add(sum.elementwise_flops, rows[i].elementwise_flops);
    sum.forward_ns = checked_add(sum.forward_ns, rows[i].forward_ns);
    sum.backward_ns = checked_add(sum.backward_ns, rows[i].backward_ns);
    sum.busy_ns = checked_add(sum.busy_ns, rows[i].busy_ns);
    sum.work_flops = checked_add(sum.work_flops, rows[i].work_flops);
    sum.work_bytes = checked_add(sum.work_bytes, rows[i].work_bytes);
    for (std::size_t b = 0; b < sum.bound_ns.size(); ++b) sum.bound_ns[b] += rows[i].bound_ns[b];
  }
  return sum;
}

TextTable make_table(const Report& report, const LayerTableOptions& options) {
  std::vector<LayerTreeRow> rows = layer_tree(report, options);
  LayerTreeRow total = sum_top_level(rows, 0, "total");
  total.depth = 0;
  const auto limit = static_cast<std::size_t>(options.max_rows);
  if (limit > 0 && rows.size() > limit) {
    // Rows below a module that is shown are in its subtotal already; the others' row holds the rest of the top level.
    LayerTreeRow others = sum_top_level(rows, limit, "[" + std::to_string(rows.size() - limit) + " more rows]");
    rows.resize(limit);
    rows.push_back(others);
  }
  rows.push_back(total);
  return TableWriter(rows, options, is_training(report)).table();
}

}  // namespace

const std::vector<std::string>& layer_column_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> words;
    for (const ColumnStyle& column : kColumns) words.emplace_back(column.word);
    return words;
  }();
  return names;
}

std::string report_layers(const Report& report, const LayerTableOptions& options) {
  return make_table(report, options).text();
}

std::string report_layers_md(const Report& report, const LayerTableOptions& options) {
  return make_table(report, options).markdown();
}

}  // namespace gpuplan
