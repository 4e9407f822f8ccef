#include "tools/importers/onnx/graph.h"

#include <algorithm>

namespace gpuplan::onnx_import {
namespace {

constexpr std::size_t kMaxShown = 200;

// The values that must be there before the node runs: what it reads, and what decides whether it runs.
std::vector<int> awaited(const Node& node) {
  std::vector<int> values = node.inputs;
  for (const Guard& g : node.guards) values.push_back(g.condition);
  return values;
}

bool in_order(const Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const int v : awaited(graph.nodes[i]))
      if (v != kNone && graph.value(v).producer >= static_cast<int>(i)) return false;
  return true;
}

[[noreturn]] void refuse_cycle(const Graph& graph, const std::vector<int>& missing) {
  const auto stuck = std::find_if(missing.begin(), missing.end(), [](int n) { return n > 0; });
  throw Error(graph.file + ": the graph is cyclic: the " +
              describe(graph.nodes[static_cast<std::size_t>(stuck - missing.begin())]) + " waits for its own result");
}

void reorder(Graph& graph, const std::vector<int>& order) {
  std::vector<int> place(order.size());
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    nodes.push_back(std::move(graph.nodes[static_cast<std::size_t>(order[i])]));
  }
  graph.nodes = std::move(nodes);
  for (Value& v : graph.values) {
    if (v.producer != kNone) v.producer = place[static_cast<std::size_t>(v.producer)];
    for (int& user : v.users) user = place[static_cast<std::size_t>(user)];
  }
}

}  // namespace

// A tensor without elements may have any sizes beside its 0.
bool is_small(const Extents& shape) {
  for (const Extent& e : shape)
    if (!e.fixed() || e.at[0] < 0 || e.at[0] > static_cast<std::int64_t>(kMaxContent)) return false;
  return product(shape).at[0] <= static_cast<std::int64_t>(kMaxContent);
}

std::optional<std::int64_t> integer_of(const Value& value) {
  if (value.kind != ValueKind::constant || !value.content || value.content->real) return std::nullopt;
  const Extents& all = value.content->integers;
  return all.size() == 1 && all[0].fixed() ? std::optional(all[0].at[0]) : std::nullopt;
}

void sort_nodes(Graph& graph) {
  if (in_order(graph)) return;
  std::vector<int> missing(graph.nodes.size(), 0);
  std::vector<std::vector<int>> waiting(graph.nodes.size());  // for a node: nodes, each as often as it waits
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const int v : awaited(graph.nodes[i]))
      if (v != kNone && graph.value(v).producer != kNone) {
        ++missing[i];
        waiting[static_cast<std::size_t>(graph.value(v).producer)].push_back(static_cast<int>(i));
      }
  std::vector<int> order;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (missing[i] == 0) order.push_back(static_cast<int>(i));
  for (std::size_t next = 0; next < order.size(); ++next)
    for (const int user : waiting[static_cast<std::size_t>(order[next])])
      if (--missing[static_cast<std::size_t>(user)] == 0) order.push_back(user);
  if (order.size() != graph.nodes.size()) refuse_cycle(graph, missing);
  reorder(graph, order);
}

bool is_generated(std::string_view name) {
  const bool number =
      !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number || name.starts_with("onnx::") || name.starts_with("/") || name.starts_with("val_") ||
         name.starts_with("const") || name.find("Constant") != std::string_view::npos ||
         name.find("_output_") != std::string_view::npos;
}

bool is_embedding_table(const Node& gather, const Value& table) {
  if (!gather.call.empty()) return gather.call.starts_with("aten.embedding");
  return is_generated(table.name) || table.name.ends_with("weight");
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return text.size() > kMaxShown ? out + "..." : out;
}

std::string describe(const Node& node) {
  const std::string op = printable((node.domain.empty() ? "" : node.domain + "::") + node.op);
  if (!node.name.empty()) return "node " + printable(node.name) + " (" + op + ")";
  return "unnamed node (" + op + ")";
}

bool takes_all_in_order(const Graph& graph, const Value& of, const Value& index) {
  if (graph.fixed_batch == 0 || of.shape.size() != 1 || of.shape[0].fixed()) return false;
  if (index.kind == ValueKind::data || of.shape[0].at[0] % kBatches[0] != 0) return false;
  const std::int64_t all = checked_mul(of.shape[0].at[0] / kBatches[0], graph.fixed_batch);
  if (!(product(index.shape) == Extent(all))) return false;
  if (!index.content) return true;  // it lies elsewhere: as many positions as there are elements, that is all of them
  if (index.content->real) return false;
  const Extents& places = index.content->integers;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (!(places[i] == Extent(static_cast<std::int64_t>(i)))) return false;
  return true;
}

}  // namespace gpuplan::onnx_import
