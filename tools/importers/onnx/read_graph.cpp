#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "onnx_schema/onnx.pb.h"
#include "tools/importers/onnx/graph.h"
#include "tools/importers/onnx/strip.h"
#include "tools/importers/onnx/tensor_content.h"

namespace gpuplan::onnx_import {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;

constexpr std::int64_t kOldestOpset = 7;
constexpr std::size_t kMaxShown = 200;
constexpr std::size_t kMaxMadeUp = 64;  // elements of a constant that was folded; larger ones are folded weights

class Reader {
 public:
  Reader(Graph& graph, const std::vector<Variable>& set) : graph_(graph), set_(set) {}

  void read(const GraphProto& proto) {
    graph_.name = proto.name();
    for (const auto& info : proto.value_info())
      if (!info.doc_string().empty()) notes_.try_emplace(info.name(), info.doc_string());
    for (const TensorProto& t : proto.initializer()) initializer(t);
    read_inputs(proto);
    for (const NodeProto& n : proto.node()) declare_outputs(n);
    graph_.nodes.reserve(static_cast<std::size_t>(proto.node_size()));
    for (const NodeProto& n : proto.node()) node(n);
    read_outputs(proto);
    sort_nodes();
    drop_folded_tables(graph_, without_note_);
    tie_turned_weights(graph_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error(graph_.file + ": " + what); }

  int declare(Value value, const std::string& what) {
    if (value.name.empty()) refuse(what + " has no name");
    const auto [entry, fresh] = names_.try_emplace(value.name, static_cast<int>(graph_.values.size()));
    if (!fresh) refuse("two values are named \"" + printable(value.name) + "\"; the second is " + what);
    return graph_.add(std::move(value));
  }

  Value tensor(const TensorProto& t, const std::string& what) const {
    const std::optional<DType> type = type_of(t.data_type());
    if (!type) refuse(what + " has elements of type " + std::to_string(t.data_type()) + ", which is not known");
    Value v;
    v.name = t.name();
    v.type = *type;
    if (static_cast<std::size_t>(t.dims_size()) > kMaxRank)
      refuse(what + " has " + std::to_string(t.dims_size()) + " dimensions; at most 8 are supported");
    for (const std::int64_t n : t.dims()) {
      if (n < 0) refuse(what + " has a dimension of " + std::to_string(n));
      v.shape.emplace_back(n);
    }
    std::int64_t elements = 0;
    try {
      elements = checked_mul(product(v.shape).at[0], size_of(*type)) / size_of(*type);
    } catch (const Error&) {
      refuse(what + " has sizes " + to_string(v.shape) + ", whose product does not fit in 64 bits");
    }
    v.kind = ValueKind::constant;
    v.content = content_of(t, *type, elements);
    return v;
  }

  // An initializer of floating point that has a name of its own, not one that an exporter made up for a folded
  // constant, is a weight of the model.
  void initializer(const TensorProto& t) {
    const int index = declare(tensor(t, "the initializer \"" + printable(t.name()) + "\""), "an initializer");
    Value& v = graph_.value(index);
    v.initializer = index;
    const bool made_up = is_generated(v.name) && v.content && v.content->size() <= kMaxMadeUp;
    const auto notes = notes_.find(v.name);
    const std::string_view kind = notes == notes_.end() ? "" : note_of(notes->second, kKindNote);
    if (kind == "PARAMETER") graph_.parameters.try_emplace(std::string(note_of(notes->second, kNameNote)), index);
    if (!is_floating(v.type) || v.shape.empty() || kind == "BUFFER") return;
    if (kind.empty() && notes_.empty() && (made_up || is_table(v.name))) return;
    if (kind.empty() && !notes_.empty()) without_note_.push_back(index);
    v.kind = ValueKind::weight;
  }

  // Buffers of floating point that modelling code registers; nothing in the file tells them from parameters.
  static bool is_table(std::string_view name) {
    return name.ends_with("inv_freq") || name.ends_with("masked_bias") || name.ends_with("attn_mask") ||
           name.ends_with("relative_coords_table");
  }

  // --- inputs -----------------------------------------------------------------------------------------------------

  void read_inputs(const GraphProto& proto) {
    std::string batch_name;
    for (const auto& info : proto.input()) {
      if (names_.contains(info.name())) continue;  // opset 8 and before list initializers as inputs, too
      if (!info.type().has_tensor_type()) refuse("the input \"" + printable(info.name()) + "\" is not a tensor");
      const auto& type = info.type().tensor_type();
      const std::optional<DType> element = type_of(type.elem_type());
      if (!element) refuse("the input \"" + printable(info.name()) + "\" has elements of an unknown type");
      if (!type.has_shape()) refuse("the input \"" + printable(info.name()) + "\" has no shape");
      if (type.shape().dim_size() < 1)
        refuse("the input \"" + printable(info.name()) + "\" is a scalar: its first dimension should be the batch");
      if (static_cast<std::size_t>(type.shape().dim_size()) > kMaxRank)
        refuse("the input \"" + printable(info.name()) + "\" has more than 8 dimensions");
      if (batch_name.empty()) batch_name = type.shape().dim(0).dim_param();
      if (graph_.fixed_batch == 0 && type.shape().dim(0).dim_value() > 0)
        graph_.fixed_batch = type.shape().dim(0).dim_value();
      Value v;
      v.name = info.name();
      v.kind = ValueKind::data;
      v.type = *element;
      v.shape.push_back(batch_extent());
      for (int i = 1; i < type.shape().dim_size(); ++i)
        v.shape.push_back(input_size(type.shape().dim(i), info.name(), i, batch_name));
      graph_.inputs.push_back(declare(std::move(v), "an input"));
    }
    if (graph_.inputs.empty()) refuse("the graph has no input");
  }

  template <class Dimension>
  Extent input_size(const Dimension& d, const std::string& input, int i, const std::string& batch_name) {
    const std::string where = "dimension " + std::to_string(i) + " of the input \"" + printable(input) + "\"";
    if (d.has_dim_value() && d.dim_value() > 0) return d.dim_value();
    if (d.has_dim_value() && d.dim_value() < 0) refuse(where + " is " + std::to_string(d.dim_value()));
    if (!d.dim_param().empty() && d.dim_param() == batch_name) return batch_extent();
    const std::string name = d.dim_param().empty() ? printable(input) + "_" + std::to_string(i) : d.dim_param();
    for (const Variable& v : set_)
      if (v.name == name) {
        if (v.value < 1) throw Error("--set " + name + " expects a size, at least 1", ErrorKind::usage);
        const auto same = [&](const Variable& known) { return known.name == name; };
        if (std::none_of(graph_.dimensions.begin(), graph_.dimensions.end(), same)) graph_.dimensions.push_back(v);
        return v.value;
      }
    throw Error(graph_.file + ": the dynamic dimension \"" + printable(name) + "\" has no value (" + where + ")")
        .help("give it one: --set " + printable(name) + "=128");
  }

  // --- nodes ------------------------------------------------------------------------------------------------------

  void declare_outputs(const NodeProto& n) {
    for (const std::string& name : n.output()) {
      if (name.empty()) continue;
      Value v;
      v.name = name;
      declare(std::move(v), "an output of the node \"" + printable(n.name()) + "\"");
    }
  }

  int find(const std::string& name, const std::string& what) const {
    const auto found = names_.find(name);
    if (found == names_.end()) refuse(what + " reads \"" + printable(name) + "\", which nothing computes");
    return found->second;
  }

  void node(const NodeProto& n) {
    Node node;
    node.op = n.op_type();
    node.domain = n.domain() == "ai.onnx" ? "" : n.domain();
    node.name = n.name();
    read_notes(n.doc_string(), node);
    const int index = static_cast<int>(graph_.nodes.size());
    for (const std::string& name : n.input()) {
      node.inputs.push_back(name.empty() ? kNone : find(name, "the " + describe(node)));
      if (node.inputs.back() != kNone) graph_.value(node.inputs.back()).users.push_back(index);
    }
    for (const std::string& name : n.output()) {
      node.outputs.push_back(name.empty() ? kNone : find(name, "the graph"));
      if (node.outputs.back() != kNone) graph_.value(node.outputs.back()).producer = index;
    }
    for (const AttributeProto& a : n.attribute()) {
      node.has_graph = node.has_graph || a.has_g() || a.graphs_size() > 0;
      node.attributes.try_emplace(a.name(), attribute(a, node));
    }
    graph_.nodes.push_back(std::move(node));
  }

  Attribute attribute(const AttributeProto& a, const Node& node) const {
    Attribute out;
    out.integer = a.i();
    out.real = a.f();
    out.text = a.s();
    out.integers.assign(a.ints().begin(), a.ints().end());
    out.reals.assign(a.floats().begin(), a.floats().end());
    if (a.has_t()) out.tensor = tensor(a.t(), "the tensor of the " + describe(node));
    return out;
  }

  void read_outputs(const GraphProto& proto) {
    for (const auto& info : proto.output()) {
      graph_.outputs.push_back(find(info.name(), "the graph's output"));
      graph_.value(graph_.outputs.back()).is_output = true;
    }
    if (graph_.outputs.empty()) refuse("the graph has no output");
  }

  // Nodes behind what they read; in the file's order where that is one. ONNX asks for it, not every writer does it.
  void sort_nodes() {
    std::vector<int> missing(graph_.nodes.size(), 0);
    std::vector<int> order;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const int v : graph_.nodes[i].inputs)
        if (v != kNone && graph_.value(v).producer != kNone) ++missing[i];
    // A heap by place in the file would keep its order in full; a queue keeps it where the file is in order already.
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (missing[i] == 0) order.push_back(static_cast<int>(i));
    for (std::size_t next = 0; next < order.size(); ++next)
      for (const int v : graph_.nodes[static_cast<std::size_t>(order[next])].outputs)
        if (v != kNone)
          for (const int user : graph_.value(v).users)
            if (--missing[static_cast<std::size_t>(user)] == 0) order.push_back(user);
    if (order.size() != graph_.nodes.size()) refuse_cycle(missing);
    if (in_order()) return;
    reorder(order);
  }

  bool in_order() const {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const int v : graph_.nodes[i].inputs)
        if (v != kNone && graph_.value(v).producer >= static_cast<int>(i)) return false;
    return true;
  }

  [[noreturn]] void refuse_cycle(const std::vector<int>& missing) const {
    const auto stuck = std::find_if(missing.begin(), missing.end(), [](int n) { return n > 0; });
    refuse("the graph is cyclic: the " + describe(graph_.nodes[static_cast<std::size_t>(stuck - missing.begin())]) +
           " waits for its own result");
  }

  void reorder(const std::vector<int>& order) {
    std::vector<int> place(order.size());
    std::vector<Node> nodes;
    nodes.reserve(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
      nodes.push_back(std::move(graph_.nodes[static_cast<std::size_t>(order[i])]));
    }
    graph_.nodes = std::move(nodes);
    for (Value& v : graph_.values) {
      if (v.producer != kNone) v.producer = place[static_cast<std::size_t>(v.producer)];
      for (int& user : v.users) user = place[static_cast<std::size_t>(user)];
    }
  }

  Graph& graph_;
  const std::vector<Variable>& set_;
  std::unordered_map<std::string, int> names_;
  std::unordered_map<std::string, std::string> notes_;  // of values
  std::vector<int> without_note_;                       // initializers of a file that has notes
};

void check_opset(const ModelProto& model, Graph& graph) {
  for (const auto& import : model.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx") graph.opset = import.version();
  if (graph.opset == 0)
    throw Error(graph.file + " is no ONNX model: it names no version of ONNX's operators")
        .help("expected a ModelProto as torch.onnx.export and onnx.save write it");
  if (graph.opset < kOldestOpset)
    throw Error(graph.file + " uses version " + std::to_string(graph.opset) +
                " of ONNX's operators; 7 is the oldest read");
}

}  // namespace

bool is_generated(std::string_view name) {
  const bool number =
      !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number || name.starts_with("onnx::") || name.starts_with("/") || name.starts_with("val_") ||
         name.starts_with("const") || name.find("Constant") != std::string_view::npos ||
         name.find("_output_") != std::string_view::npos;
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

Graph read_graph(const std::string& model, const std::string& file, const std::vector<Variable>& set) {
  ModelProto proto;
  if (!proto.ParseFromString(model)) throw Error(file + " is no ONNX model: its messages cannot be read");
  if (!proto.has_graph())
    throw Error(file + " is no ONNX model: it has no graph")
        .help("expected a ModelProto as torch.onnx.export and onnx.save write it");
  Graph graph;
  graph.file = file;
  check_opset(proto, graph);
  graph.producer = printable(proto.producer_name() + " " + proto.producer_version());
  Reader(graph, set).read(proto.graph());
  return graph;
}

}  // namespace gpuplan::onnx_import
