// Weights that an exporter wrote down a second time, the other way around.
//
// torch.onnx's TorchScript exporter, which folds constants, computes the Transpose of nn.Linear's weight. Where that is
// an embedding's, too, as the head's of most language models is, the file has both: [V, H], which a Gather reads, and
// [H, V] by a name that was made up, which a MatMul reads. The file does not say that they were one parameter; their
// elements do.
#include "tools/importers/onnx/passes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace gpuplan::onnx_import {
namespace {

constexpr std::int64_t kComparedWhole = 4096;  // elements: larger matrices are compared in as many, spread over them
constexpr std::int64_t kBlocks = 16;           // of kSide x kSide elements: kComparedWhole of them
constexpr std::int64_t kSide = 16;
constexpr int kMaxReads = 1 << 16;  // of all comparisons of a file: some tens of milliseconds

// A matrix of a file, in parts.
class StoredMatrix {
 public:
  StoredMatrix(const Value& value, const StoredData& data, const std::string& model, int& reads)
      : file_(data, model),
        rows_(value.shape[0].at[0]),
        columns_(value.shape[1].at[0]),
        width_(data.bytes / (rows_ * columns_)),
        reads_(reads) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::size_t width() const { return static_cast<std::size_t>(width_); }

  // The elements of these rows and columns, row by row; nothing where they cannot be read.
  std::optional<std::string> block(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
    std::string out;
    const bool is_one_run = columns == columns_;
    const std::int64_t runs = is_one_run ? 1 : rows;
    for (std::int64_t i = 0; i < runs; ++i) {
      if (++reads_ > kMaxReads) return std::nullopt;
      const std::int64_t elements = is_one_run ? rows * columns : columns;
      if (!file_.read(((row + i) * columns_ + column) * width_, elements * width_, out)) return std::nullopt;
    }
    return out;
  }

 private:
  StoredFile file_;
  std::int64_t rows_, columns_, width_;
  int& reads_;
};

// True where no value is more than half of these.
bool has_several_values(std::vector<std::string> elements) {
  std::sort(elements.begin(), elements.end());
  const std::size_t half = elements.size() / 2;
  for (std::size_t i = 0; i + half < elements.size(); ++i)
    if (elements[i] == elements[i + half]) return false;
  return true;
}

struct Comparison {
  TurnedCopy::Found found = TurnedCopy::Found::unknown;
  std::int64_t elements = 0;
};

// Blocks that lie one in each stripe of rows and of columns; all of a small matrix.
Comparison compare(StoredMatrix& table, StoredMatrix& copy) {
  Comparison c;
  const bool whole = table.rows() * table.columns() <= kComparedWhole;
  const std::int64_t rows = whole ? table.rows() : std::min(kSide, table.rows());
  const std::int64_t columns = whole ? table.columns() : std::min(kSide, table.columns());
  const std::int64_t blocks = whole ? 1 : kBlocks;
  std::vector<std::string> elements;
  for (std::int64_t k = 0; k < blocks; ++k) {
    const std::int64_t row = whole ? 0 : (table.rows() - rows) / (kBlocks - 1) * k;
    const std::int64_t column = whole ? 0 : (table.columns() - columns) / (kBlocks - 1) * (k * 7 % kBlocks);
    const std::optional<std::string> one = table.block(row, column, rows, columns);
    const std::optional<std::string> other = one ? copy.block(column, row, columns, rows) : std::nullopt;
    if (!one || !other) return {};
    const std::size_t width = table.width();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<std::size_t>(i * columns + j) * width;
        const auto turned = static_cast<std::size_t>(j * rows + i) * width;
        elements.push_back(one->substr(at, width));
        if (other->compare(turned, width, elements.back()) != 0) return {TurnedCopy::Found::different, 0};
      }
  }
  c.elements = static_cast<std::int64_t>(elements.size());
  if (has_several_values(std::move(elements))) c.found = TurnedCopy::Found::equal;
  return c;
}

bool is_matrix(const Graph& graph, int v) {
  const Value& value = graph.value(v);
  return value.kind == ValueKind::weight && value.initializer == v && value.shape.size() == 2;
}

// What every node reads its operands as.
struct Reads {
  std::vector<int> tables;       // of embeddings
  std::vector<char> is_product;  // by the value: only products read it, as what they multiply with
};

Reads reads_of(const Graph& graph) {
  Reads reads;
  std::vector<char> is_table(graph.values.size(), 0);
  std::vector<char> other(graph.values.size(), 0);
  reads.is_product.assign(graph.values.size(), 0);
  for (const int v : graph.outputs) other[static_cast<std::size_t>(v)] = 1;
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {  // users before what they read
    const Node& node = *n;
    if (node.gone) continue;
    // The exporter keeps one of several equal copies, and an Identity in the place of each other.
    const int same = node.op == "Identity" && node.domain.empty() && !node.outputs.empty() ? node.outputs[0] : kNone;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      const int v = node.inputs[i];
      const auto at = static_cast<std::size_t>(v);
      const bool own = node.domain.empty();
      if (own && i == 0 && node.op == "Gather" && is_matrix(graph, v) && is_embedding_table(node, graph.value(v)))
        is_table[at] = 1;
      if (same != kNone) {
        reads.is_product[at] |= reads.is_product[static_cast<std::size_t>(same)];
        other[at] |= other[static_cast<std::size_t>(same)];
      } else if (own && i == 1 && (node.op == "MatMul" || node.op == "Gemm")) {
        reads.is_product[at] = 1;
      } else {
        other[at] = 1;
      }
    }
  }
  for (std::size_t v = 0; v < other.size(); ++v) {
    if (other[v] != 0) reads.is_product[v] = 0;
    if (is_table[v] != 0) reads.tables.push_back(static_cast<int>(v));
  }
  return reads;
}

}  // namespace

void tie_turned_copies(Graph& graph, const std::string& model) {
  const Reads reads = reads_of(graph);
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<int>> tables;  // by the sizes of such a copy
  for (const int v : reads.tables) {
    const Extents& sizes = graph.value(v).shape;
    tables[{sizes[1].at[0], sizes[0].at[0]}].push_back(v);
  }
  int done = 0;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const int v = static_cast<int>(i);
    Value& copy = graph.value(v);
    if (reads.is_product[i] == 0 || !is_matrix(graph, v) || !is_generated(copy.name)) continue;
    const auto alike = tables.find({copy.shape[0].at[0], copy.shape[1].at[0]});
    if (alike == tables.end()) continue;
    TurnedCopy& turned = graph.turned[v];
    turned.found = TurnedCopy::Found::different;
    for (const int table : alike->second) {
      if (++done > kMaxReads) {
        turned.found = TurnedCopy::Found::unknown;
        break;
      }
      const auto one = graph.stored.find(table), other = graph.stored.find(v);
      Comparison c;
      if (one != graph.stored.end() && other != graph.stored.end() && graph.value(table).type == copy.type) {
        StoredMatrix first(graph.value(table), one->second, model, done);
        StoredMatrix second(copy, other->second, model, done);
        c = compare(first, second);
      }
      if (c.found == TurnedCopy::Found::different) continue;
      turned = {c.found, table, c.elements};
      if (c.found == TurnedCopy::Found::unknown) continue;
      copy.initializer = table;
      copy.transposed = true;
      break;
    }
  }
}

}  // namespace gpuplan::onnx_import
