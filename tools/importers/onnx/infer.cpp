#include "tools/importers/onnx/infer.h"

#include <algorithm>
#include <unordered_map>

namespace gpuplan::onnx_import {
namespace {

constexpr std::size_t kMaxUnknown = 20;

const std::unordered_map<std::string_view, InferRule>& infer_rules() {
  static const std::unordered_map<std::string_view, InferRule> all = [] {
    std::unordered_map<std::string_view, InferRule> map;
    for (const auto& list : {pointwise_rules(), layer_rules(), constant_rules(), view_rules(), movement_rules(),
                             reduction_rules(), einsum_rules()})
      for (const NamedRule& r : list) map.emplace(r.op, r.rule);
    return map;
  }();
  return all;
}

InferRule infer_rule_of(const Node& node) {
  if (!node.domain.empty()) return nullptr;
  const auto found = infer_rules().find(node.op);
  return found == infer_rules().end() ? nullptr : found->second;
}

// Operators that are not known, each with its first nodes.
void refuse_unknown(const Graph& graph) {
  std::map<std::string, std::vector<std::string>> unknown;
  for (const Node& n : graph.nodes)
    if (infer_rule_of(n) == nullptr && !n.is_choice && n.guards.empty())
      unknown[printable((n.domain.empty() ? "" : n.domain + "::") + n.op)].push_back(printable(n.name));
  if (unknown.empty()) return;
  std::string list;
  std::size_t listed = 0;
  for (const auto& [op, nodes] : unknown) {
    if (++listed > kMaxUnknown) {
      list += "\n    and " + std::to_string(unknown.size() - kMaxUnknown) + " more";
      break;
    }
    list += "\n    " + op + ": " + (nodes.front().empty() ? "an unnamed node" : nodes.front());
    if (nodes.size() > 1) list += " and " + std::to_string(nodes.size() - 1) + " more";
  }
  throw Error(graph.file + ": operators that gpuplan does not know:" + list);
}

// A value is as variable as the most variable one that it follows from. A view is one of its first operand.
ValueKind kind_of_result(const Graph& graph, const Node& node, bool is_view) {
  ValueKind kind = ValueKind::constant;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    const ValueKind k = graph.value(node.inputs[i]).kind;
    if (k == ValueKind::data || (k == ValueKind::weight && !(is_view && i == 0))) return ValueKind::data;
    if (k == ValueKind::weight) kind = ValueKind::weight;
  }
  return kind;
}

bool is_vector(const Extents& shape) {
  return std::count_if(shape.begin(), shape.end(), [](const Extent& e) { return !(e == Extent(1)); }) <= 1;
}

bool reads_only_shape(const Node& node) { return node.op == "Shape" || node.op == "Size"; }

bool is_random(const Node& node) { return node.op.starts_with("Random") || node.op == "Bernoulli"; }

// Whether the value is true. Throws Error: it is not known without running the model.
bool is_true(const Graph& graph, int condition, const Node& node) {
  const std::optional<Content>& c = graph.value(condition).content;
  if (!c || c->size() != 1 || c->real || !c->integers[0].fixed())
    throw Error(graph.file + ": the " + describe(node) + ": its condition (\"" +
                printable(graph.value(condition).name) + "\") is not known without running the model");
  return c->integers[0].at[0] != 0;
}

// A branch within one that is not taken has a condition that nothing computes.
bool is_taken(const Graph& graph, const Node& node) {
  for (const Guard& g : node.guards)
    if (graph.value(g.condition).kind == ValueKind::unknown || is_true(graph, g.condition, node) != g.when)
      return false;
  return true;
}

// Nodes that no longer read some values, which they leave together: a value may have thousands of users.
class Released {
 public:
  explicit Released(Graph& graph) : graph_(graph), changed_(graph.nodes.size(), 0) {}

  /// From now on the node reads this value alone, if any.
  void reads(int index, std::optional<int> value) {
    Node& node = graph_.nodes[static_cast<std::size_t>(index)];
    changed_[static_cast<std::size_t>(index)] = 1;
    for (const int v : node.inputs)
      if (v != kNone) values_.push_back(v);
    node.inputs.clear();
    if (value) node.inputs.push_back(*value);
  }

  void leave() {
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    for (const int v : values_)
      std::erase_if(graph_.value(v).users, [&](int user) {
        const Node& node = graph_.nodes[static_cast<std::size_t>(user)];
        return changed_[static_cast<std::size_t>(user)] != 0 && node.inputs != std::vector<int>{v};
      });
  }

 private:
  Graph& graph_;
  std::vector<char> changed_;  // by the node
  std::vector<int> values_;
};

// An If whose condition is known is its result in one branch.
void choose(Graph& graph, int index, Released& released) {
  Node& node = graph.nodes[static_cast<std::size_t>(index)];
  released.reads(index, node.inputs[is_true(graph, node.inputs[0], node) ? 1 : 2]);
  node.op = "Identity";
  node.is_choice = false;
}

// A file of some megabytes may have hundreds of thousands of nodes that compute with tables of thousands.
void charge(Graph& graph, const Node& node) {
  for (const std::vector<int>& list : {node.inputs, node.outputs})
    for (const int v : list)
      if (v != kNone && graph.value(v).content) graph.computed += graph.value(v).content->size();
  if (graph.computed > kMaxComputed)
    throw Error(graph.file + ": the " + describe(node) + ": sizes and tables of more than " +
                std::to_string(kMaxComputed) + " elements follow from the graph alone");
}

void infer_node(Graph& graph, int index) {
  Node& node = graph.nodes[static_cast<std::size_t>(index)];
  for (const int v : node.inputs)
    if (v != kNone && graph.value(v).kind == ValueKind::unknown)
      throw Error(graph.file + ": the " + describe(node) + " reads a value that is not known");
  Inference view(graph, index);
  const InferRule rule = infer_rule_of(node);
  if (rule == nullptr) view.fail("gpuplan does not know this operator");
  try {
    rule(view);
  } catch (const Error& error) {
    if (error.message().starts_with(graph.file)) throw;
    view.fail(error.message());
  }
  const ValueKind kind = reads_only_shape(node) ? ValueKind::constant
                         : is_random(node)      ? ValueKind::data
                                                : kind_of_result(graph, node, view.is_view());
  if (kind == ValueKind::constant) charge(graph, node);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const int v = node.outputs[i];
    if (v == kNone || !view.is_set(i)) continue;
    Value& value = graph.value(v);
    value.kind = kind;
    if (kind == ValueKind::weight) {
      const Value& of = graph.value(node.inputs.front());
      // torch.onnx keeps one of several equal tensors and names the others by Identity. Matrices that are equal are
      // tied; vectors are the ones and zeros that norms and biases begin with.
      const bool own = node.op == "Identity" && is_vector(value.shape) && !is_generated(value.name);
      value.initializer = own ? v : of.initializer;
      value.transposed = of.transposed != (node.op == "Transpose");
    }
    // A small one by a made-up name counts as a constant until a norm turns out to read it.
    if (kind == ValueKind::constant && node.op == "Identity" && graph.value(node.inputs.front()).initializer != kNone)
      value.initializer = v;
    if (kind != ValueKind::constant) value.content.reset();
  }
  if (kind != ValueKind::data) node.gone = true;
}

}  // namespace

bool is_known(const Node& node) { return infer_rule_of(node) != nullptr; }

void infer(Graph& graph) {
  refuse_unknown(graph);
  Released released(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const int index = static_cast<int>(i);
    if (!is_taken(graph, node)) {
      released.reads(index, std::nullopt);
      node.gone = true;
      continue;
    }
    if (node.is_choice) choose(graph, index, released);
    infer_node(graph, index);
  }
  released.leave();
}

// --- what a rule sees -----------------------------------------------------------------------------------------------

const Extents& Inference::content(std::size_t i, std::string_view what) const {
  const Value& v = in(i);
  if (!v.content || v.content->real)
    fail(std::string(what) + " (\"" + printable(v.name) + "\") are not known without running the model");
  return v.content->integers;
}

std::vector<std::int64_t> Inference::numbers(std::string_view attribute_name, std::size_t input) const {
  if (has_attribute(attribute_name)) return integers(attribute_name);
  std::vector<std::int64_t> out;
  if (!has(input)) return out;
  for (const Extent& e : content(input, "its " + std::string(attribute_name))) {
    if (!e.fixed()) fail("its " + std::string(attribute_name) + " depend on the batch: " + to_string(e));
    out.push_back(e.at[0]);
  }
  return out;
}

std::size_t Inference::axis(std::int64_t axis, std::size_t rank) const {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n)
    fail("axis " + std::to_string(axis) + " of a tensor of " + std::to_string(rank) + " dimensions");
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

void Inference::out(std::size_t i, Extents shape, DType type, std::optional<Content> content) {
  if (i >= node().outputs.size() || node().outputs[i] == kNone) return;
  if (shape.size() > kMaxRank) fail("its result has more than 8 dimensions");
  for (const Extent& e : shape)
    if (e.at[0] < 0 || e.at[1] < 0) fail("its result has a negative size: " + to_string(shape));
  product(shape);  // fits in 64 bits
  set_.resize(node().outputs.size(), 0);
  set_[i] = 1;
  Value& v = graph_.value(node().outputs[i]);
  v.shape = std::move(shape);
  v.type = type;
  v.content = content && is_small(v.shape) ? std::move(content) : std::nullopt;
}

Extent Inference::same(const Extent& a, const Extent& b) const {
  if (a == b || b == Extent(1)) return a;
  if (a == Extent(1)) return b;
  // A size that was written down for the batch of the export.
  const auto written = [&](const Extent& dependent, const Extent& number) {
    if (graph_.fixed_batch == 0 || dependent.fixed() || !number.fixed()) return false;
    return dependent.at[0] % kBatches[0] == 0 &&
           checked_mul(dependent.at[0] / kBatches[0], graph_.fixed_batch) == number.at[0];
  };
  if (written(a, b)) return a;
  if (written(b, a)) return b;
  fail("sizes " + to_string(a) + " and " + to_string(b) + " do not match (N is the batch)");
}

Extents Inference::broadcast(const Extents& a, const Extents& b) const {
  const std::size_t rank = std::max(a.size(), b.size());
  Extents out(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const Extent x = i < a.size() ? a[a.size() - 1 - i] : Extent(1);
    const Extent y = i < b.size() ? b[b.size() - 1 - i] : Extent(1);
    try {
      out[rank - 1 - i] = same(x, y);
    } catch (const Error&) {
      fail("shapes " + to_string(a) + " and " + to_string(b) + " do not match (N is the batch)");
    }
  }
  return out;
}

namespace {

// Whether dimensions from `first` on, some of them, come to `size`.
bool are_whole(const Extents& of, std::size_t first, const Extent& size) {
  Extent all = 1;
  for (std::size_t i = first; i < of.size(); ++i) {
    all = all * of[i];
    if (all == size) return true;
  }
  return false;
}

}  // namespace

// The dimension that holds the batch lies within the same elements of both shapes: those from `from` to `to`, which are
// none for a batch of 1. Where several could be it, the one that is just the batch, then the first that reaches beyond
// `from`. For a batch of 1 that one must not be whole dimensions that follow the batch ([197, 1, 12, 64] becomes
// [197, 768] for a product of its rows, and [197, 1, 768] becomes [197, 12, 64] for heads), else it is one that ends at
// `from`.
Extents Inference::for_any_batch(const Extents& of, Extents sizes) const {
  if (product(of) == product(sizes) || graph_.fixed_batch == 0) return sizes;
  const auto dependent = std::find_if(of.begin(), of.end(), [](const Extent& e) { return !e.fixed(); });
  if (dependent == of.end() || dependent->at[0] % kBatches[0] != 0) return sizes;
  const std::int64_t from = product(of, 0, static_cast<std::size_t>(dependent - of.begin())).at[0];
  const std::int64_t to = checked_mul(from, checked_mul(dependent->at[0] / kBatches[0], graph_.fixed_batch));
  const bool one = graph_.fixed_batch == 1;
  const auto next = static_cast<std::size_t>(dependent - of.begin()) + 1;
  enum class Look { exactly, beyond, touching };
  for (const Look look : {Look::exactly, Look::beyond, Look::touching})
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool divisible = sizes[i].fixed() && sizes[i].at[0] % graph_.fixed_batch == 0;
      if (!divisible || (look == Look::exactly && !(sizes[i] == Extent(graph_.fixed_batch)))) continue;
      const std::int64_t begin = product(sizes, 0, i).at[0], end = product(sizes, 0, i + 1).at[0];
      const bool may_touch = one && look != Look::beyond;
      const bool as_it_was = one && look == Look::beyond && begin == from && are_whole(of, next, sizes[i]);
      const bool overlaps = !as_it_was && (one ? begin <= to : begin < to) && (may_touch ? end >= from : end > from);
      Extents scaled = sizes;
      scaled[i] = Extent(sizes[i].at[0] / graph_.fixed_batch) * batch_extent();
      if (overlaps && product(scaled) == product(of)) return scaled;
    }
  return sizes;
}

}  // namespace gpuplan::onnx_import
