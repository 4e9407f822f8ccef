#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "onnx_schema/onnx.pb.h"
#include "tools/importers/onnx/graph.h"
#include "tools/importers/onnx/strip.h"
#include "tools/importers/onnx/tensor_content.h"

namespace gpuplan::onnx_import {
namespace {

using onnx::AttributeProto;
using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;

constexpr std::int64_t kOldestOpset = 7;
constexpr int kMaxDepth = 32;           // functions that call each other, and branches within branches
constexpr std::size_t kMaxMadeUp = 64;  // elements of a constant that was folded; larger ones are folded weights

// The defaults of a function's attributes are in the place of a node (strip.h).
bool is_defaults(const NodeProto& n) { return n.op_type() == kDefaultsNode; }

// Where a name is looked up: the graph itself, a branch of an If, which sees what is around it, or a function's body.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string, int> names;  // kNone: an input that a call leaves out
  std::vector<Guard> guards;
  const Attributes* attributes = nullptr;  // of the call of a function
  const Node* call = nullptr;
  int depth = 0;
};

class GraphReader {
 public:
  GraphReader(Graph& graph, const std::vector<Variable>& set) : graph_(graph), set_(set) {}

  void read(const ModelProto& model) {
    for (const FunctionProto& f : model.functions()) {
      const bool fresh = functions_.try_emplace(f.domain() + "::" + f.name(), &f).second;
      if (!fresh) refuse("two functions are named \"" + printable(f.domain() + "::" + f.name()) + "\"");
    }
    read(model.graph());
  }

 private:
  void read(const GraphProto& proto) {
    graph_.name = proto.name();
    for (const auto& info : proto.value_info())
      if (!info.doc_string().empty()) notes_.try_emplace(info.name(), info.doc_string());
    for (const TensorProto& t : proto.initializer()) initializer(t, top_);
    read_inputs(proto);
    graph_.nodes.reserve(static_cast<std::size_t>(proto.node_size()));
    read_nodes(proto, top_);
    read_outputs(proto);
    sort_nodes(graph_);
    drop_folded_tables(graph_, without_note_);
    tie_turned_weights(graph_);
  }

  [[noreturn]] void refuse(const std::string& what) const { throw Error(graph_.file + ": " + what); }

  int declare(Value value, const std::string& what, Scope& scope) {
    if (value.name.empty()) refuse(what + " has no name");
    if (graph_.values.size() >= kMaxValues) refuse("it has more than " + std::to_string(kMaxValues) + " values");
    const auto [entry, fresh] = scope.names.try_emplace(value.name, static_cast<int>(graph_.values.size()));
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
    if (is_small(v.shape)) v.content = content_of(t, *type, elements);
    return v;
  }

  // An initializer of floating point that has a name of its own, not one that an exporter made up for a folded
  // constant, is a weight of the model.
  void initializer(const TensorProto& t, Scope& scope) {
    const int index = declare(tensor(t, "the initializer \"" + printable(t.name()) + "\""), "an initializer", scope);
    Value& v = graph_.value(index);
    v.initializer = index;
    const bool made_up = is_generated(v.name) && v.content && v.content->size() <= kMaxMadeUp;
    const auto notes = notes_.find(v.name);
    const std::string_view kind = notes == notes_.end() ? "" : note_of(notes->second, kKindNote);
    if (kind == "PARAMETER") graph_.parameters.try_emplace(std::string(note_of(notes->second, kNameNote)), index);
    v.is_buffer = kind == "BUFFER" || (kind.empty() && notes_.empty() && is_table(v.name));
    if (!is_floating(v.type) || v.is_buffer || (v.shape.empty() && kind != "PARAMETER")) return;
    if (kind.empty() && notes_.empty() && made_up) return;
    if (kind.empty() && !notes_.empty()) without_note_.push_back(index);
    v.kind = ValueKind::weight;
    if (v.shape.size() != 2) return;
    const std::int64_t bytes = product(v.shape).at[0] * size_of(v.type);  // checked by tensor()
    if (std::optional<StoredData> data = stored_data(t, bytes)) graph_.stored.emplace(index, std::move(*data));
  }

  // Buffers of floating point that modelling code registers; nothing in the file tells them from parameters.
  static bool is_table(std::string_view name) {
    return name.ends_with("inv_freq") || name.ends_with("masked_bias") || name.ends_with("attn_mask") ||
           name.ends_with("relative_coords_table") || name.ends_with(".filt");
  }

  // --- inputs -----------------------------------------------------------------------------------------------------

  void read_inputs(const GraphProto& proto) {
    std::string batch_name;
    for (const auto& info : proto.input()) {
      if (const auto known = top_.names.find(info.name()); known != top_.names.end()) {
        // Opset 8 and before list initializers as inputs, too.
        if (graph_.value(known->second).initializer == known->second) continue;
        refuse("two inputs are named \"" + printable(info.name()) + "\"");
      }
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
      if (type.shape().dim(0).dim_value() > 0) graph_.fixed_batch = type.shape().dim(0).dim_value();
      Value v;
      v.name = info.name();
      v.kind = ValueKind::data;
      v.type = *element;
      v.shape.push_back(batch_extent());
      for (int i = 1; i < type.shape().dim_size(); ++i)
        v.shape.push_back(input_size(type.shape().dim(i), info.name(), i, batch_name));
      graph_.inputs.push_back(declare(std::move(v), "an input", top_));
    }
    if (graph_.inputs.empty()) refuse("the graph has no input");
    expect_one_batch(proto);
  }

  // The first dimension of every input is the batch: of one size where sizes are written down, else dynamic in all of
  // them, by any name that is no other dimension's.
  void expect_one_batch(const GraphProto& proto) const {
    std::set<std::string> others;
    const auto is_input = [&](const auto& info) {
      return graph_.value(top_.names.at(info.name())).initializer == kNone;
    };
    const auto said = [](const auto& d) {
      return d.dim_value() > 0        ? std::to_string(d.dim_value())
             : !d.dim_param().empty() ? "\"" + printable(d.dim_param()) + "\""
                                      : std::string("dynamic");
    };
    for (const auto& info : proto.input())
      for (int i = 1; is_input(info) && i < info.type().tensor_type().shape().dim_size(); ++i)
        others.insert(info.type().tensor_type().shape().dim(i).dim_param());
    others.erase("");
    const onnx::ValueInfoProto* first = nullptr;
    for (const auto& info : proto.input()) {
      if (!is_input(info)) continue;
      if (first == nullptr) first = &info;
      const auto& known = first->type().tensor_type().shape().dim(0);
      const auto& own = info.type().tensor_type().shape().dim(0);
      const bool renamed = own.dim_param() != known.dim_param() && others.contains(own.dim_param());
      if (own.dim_value() == known.dim_value() && !renamed) continue;
      throw Error(graph_.file + ": the first dimension of the input \"" + printable(info.name()) + "\" is " +
                  said(own) + ", that of \"" + printable(first->name()) + "\" is " + said(known) +
                  ": every input has the batch there")
          .help("export the model with the batch as the first dimension of all inputs, of one size or dynamic");
    }
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

  template <class Body>  // a graph, or a function
  void read_nodes(const Body& body, Scope& scope) {
    for (const NodeProto& n : body.node())
      for (const std::string& name : n.output()) {
        if (name.empty()) continue;
        Value v;
        v.name = name;
        declare(std::move(v), "an output of the node \"" + printable(n.name()) + "\"", scope);
      }
    for (const NodeProto& n : body.node())
      if (!is_defaults(n)) read_node(n, scope);
  }

  int find(const std::string& name, const std::string& what, const Scope& scope) const {
    for (const Scope* s = &scope; s != nullptr; s = s->outer)
      if (const auto found = s->names.find(name); found != s->names.end()) return found->second;
    refuse(what + " reads \"" + printable(name) + "\", which nothing computes");
  }

  // Functions within functions may be as many as a file's bytes to the power of their depth, and each call hands its
  // name and its attributes on.
  void charge(const NodeProto& n) {
    ++read_;
    charge(n.ByteSizeLong());
  }
  void charge(std::size_t bytes) {
    bytes_ += bytes;
    if (read_ > kMaxMessages || bytes_ > kMaxGraphBytes)
      refuse("with its functions written out it has more than " + std::to_string(kMaxMessages) + " nodes, or " +
             std::to_string(kMaxGraphBytes >> 20) + " MiB of them");
  }

  void read_node(const NodeProto& n, Scope& scope) {
    charge(n);
    Node node;
    node.op = n.op_type();
    node.domain = n.domain() == "ai.onnx" ? "" : n.domain();
    node.name = scope.call != nullptr && !scope.call->name.empty() ? scope.call->name + "/" + n.name() : n.name();
    read_notes(n.doc_string(), node);
    if (node.module.empty() && scope.call != nullptr) node.module = scope.call->module;
    node.guards = scope.guards;
    if (const auto f = functions_.find(n.domain() + "::" + n.op_type()); f != functions_.end())
      return read_call(n, *f->second, std::move(node), scope);
    if (node.domain.empty() && node.op == "If") return read_choice(n, std::move(node), scope);
    for (const std::string& name : n.input())
      node.inputs.push_back(name.empty() ? kNone : find(name, "the " + describe(node), scope));
    for (const std::string& name : n.output())
      node.outputs.push_back(name.empty() ? kNone : find(name, "the graph", scope));
    read_attributes(n, node, scope);
    add(std::move(node));
  }

  void add(Node node) {
    charge(node.name.size() + node.module.size());
    const int index = static_cast<int>(graph_.nodes.size());
    for (const int v : node.inputs)
      if (v != kNone) graph_.value(v).users.push_back(index);
    for (const int v : node.outputs)
      if (v != kNone) graph_.value(v).producer = index;
    graph_.nodes.push_back(std::move(node));
  }

  static std::size_t bytes_of(const Attribute& attribute) {
    const auto of_list = [](const auto& list) { return list.size() * sizeof list[0]; };
    if (const auto* const text = std::get_if<std::string>(&attribute)) return text->size();
    if (const auto* const list = std::get_if<std::vector<std::int64_t>>(&attribute)) return of_list(*list);
    if (const auto* const list = std::get_if<std::vector<double>>(&attribute)) return of_list(*list);
    if (const auto* const tensor = std::get_if<Value>(&attribute))
      return sizeof(Value) + (tensor->content ? tensor->content->size() * sizeof(Extent) : 0);
    std::size_t bytes = 0;
    if (const auto* const list = std::get_if<std::vector<std::string>>(&attribute))
      for (const std::string& text : *list) bytes += sizeof text + text.size();
    return bytes;
  }

  void read_attributes(const NodeProto& n, Node& node, const Scope& scope) {
    for (const AttributeProto& a : n.attribute()) {
      if (a.ref_attr_name().empty()) {
        node.attributes.try_emplace(a.name(), attribute(a, node));
        continue;
      }
      if (scope.attributes == nullptr) refuse("the " + describe(node) + " takes an attribute of no function");
      if (const auto given = scope.attributes->find(a.ref_attr_name()); given != scope.attributes->end()) {
        charge(bytes_of(given->second));
        node.attributes.try_emplace(a.name(), given->second);
      }
    }
  }

  // The type of what the fields hold.
  static AttributeProto::AttributeType held_type(const AttributeProto& a) {
    if (a.has_i()) return AttributeProto::INT;
    if (a.has_f()) return AttributeProto::FLOAT;
    if (a.has_s()) return AttributeProto::STRING;
    if (a.has_t()) return AttributeProto::TENSOR;
    if (a.ints_size() > 0) return AttributeProto::INTS;
    if (a.strings_size() > 0) return AttributeProto::STRINGS;
    return a.floats_size() > 0 ? AttributeProto::FLOATS : AttributeProto::UNDEFINED;
  }

  Attribute attribute(const AttributeProto& a, const Node& node) const {
    // Files of IR version 1 name no type; some writers leave a number of 0, or a list without elements, out.
    const AttributeProto::AttributeType held = held_type(a);
    const AttributeProto::AttributeType type = a.type() == AttributeProto::UNDEFINED ? held : a.type();
    if (held != AttributeProto::UNDEFINED && held != type) return UnreadAttribute{"of another type than it names"};
    switch (type) {
      case AttributeProto::INT: return a.i();
      case AttributeProto::FLOAT: return static_cast<double>(a.f());
      case AttributeProto::STRING: return a.s();
      case AttributeProto::INTS: return std::vector<std::int64_t>(a.ints().begin(), a.ints().end());
      case AttributeProto::FLOATS: return std::vector<double>(a.floats().begin(), a.floats().end());
      case AttributeProto::TENSOR: return tensor(a.t(), "the tensor of the " + describe(node));
      case AttributeProto::STRINGS: return std::vector<std::string>(a.strings().begin(), a.strings().end());
      case AttributeProto::GRAPH:
      case AttributeProto::GRAPHS: return UnreadAttribute{"a graph"};
      default: return UnreadAttribute{"of no type that is read"};
    }
  }

  // The nodes of the function's body, for this call. A result of the body is passed on by an Identity.
  void read_call(const NodeProto& n, const FunctionProto& f, Node call, const Scope& scope) {
    if (n.input_size() > f.input_size() || n.output_size() > f.output_size())
      refuse("the " + describe(call) + " has more operands or results than its function");
    read_attributes(n, call, scope);
    Scope body;
    body.guards = scope.guards;
    body.attributes = &call.attributes;
    body.call = &call;
    body.depth = deeper(call, scope);
    for (int i = 0; i < f.input_size(); ++i) {
      const bool given = i < n.input_size() && !n.input(i).empty();
      body.names[f.input(i)] = given ? find(n.input(i), "the " + describe(call), scope) : kNone;
    }
    for (const NodeProto& inner : f.node())
      if (is_defaults(inner))
        for (const AttributeProto& a : inner.attribute()) call.attributes.try_emplace(a.name(), attribute(a, call));
    read_nodes(f, body);
    for (int i = 0; i < n.output_size(); ++i) {
      if (n.output(i).empty()) continue;
      Node result;
      result.op = "Identity";
      result.name = call.name;
      result.module = call.module;
      result.guards = scope.guards;
      result.inputs = {find(f.output(i), "the function of the " + describe(call), body)};
      result.outputs = {find(n.output(i), "the graph", scope)};
      add(std::move(result));
    }
  }

  // Both branches; which of them is taken is known once the condition is (infer.h).
  void read_choice(const NodeProto& n, Node choice, const Scope& scope) {
    if (n.input_size() != 1 || n.input(0).empty()) refuse("the " + describe(choice) + " has no condition");
    const int condition = find(n.input(0), "the " + describe(choice), scope);
    std::array<std::vector<int>, 2> results;
    for (const bool when : {true, false}) {
      const GraphProto* graph = nullptr;
      for (const AttributeProto& a : n.attribute())
        if (a.name() == (when ? "then_branch" : "else_branch") && a.has_g()) graph = &a.g();
      if (graph == nullptr || graph->output_size() != n.output_size())
        refuse("the " + describe(choice) + " has no branch of as many results as it has");
      Scope branch;
      branch.outer = &scope;
      branch.guards = scope.guards;
      branch.guards.push_back({condition, when});
      branch.attributes = scope.attributes;
      branch.call = scope.call;
      branch.depth = deeper(choice, scope);
      for (const TensorProto& t : graph->initializer()) initializer(t, branch);
      read_nodes(*graph, branch);
      for (const auto& info : graph->output())
        results[when ? 0 : 1].push_back(find(info.name(), "a branch of the " + describe(choice), branch));
    }
    for (int i = 0; i < n.output_size(); ++i) {
      if (n.output(i).empty()) continue;
      Node one = choice;
      one.is_choice = true;
      const auto k = static_cast<std::size_t>(i);
      one.inputs = {condition, results[0][k], results[1][k]};
      one.outputs = {find(n.output(i), "the graph", scope)};
      add(std::move(one));
    }
  }

  int deeper(const Node& node, const Scope& scope) const {
    if (scope.depth >= kMaxDepth)
      refuse("the " + describe(node) + " is nested in more than " + std::to_string(kMaxDepth) +
             " functions and branches");
    return scope.depth + 1;
  }

  void read_outputs(const GraphProto& proto) {
    for (const auto& info : proto.output()) {
      graph_.outputs.push_back(find(info.name(), "the graph's output", top_));
      graph_.value(graph_.outputs.back()).is_output = true;
    }
    if (graph_.outputs.empty()) refuse("the graph has no output");
  }

  Graph& graph_;
  const std::vector<Variable>& set_;
  Scope top_;
  std::unordered_map<std::string, const FunctionProto*> functions_;
  std::size_t read_ = 0;  // nodes, and their bytes
  std::size_t bytes_ = 0;
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
  GraphReader(graph, set).read(proto);
  return graph;
}

}  // namespace gpuplan::onnx_import
