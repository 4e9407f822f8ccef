// An ONNX graph in memory: its nodes in an order in which they can run, and what is known of every value.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/spec/model.h"
#include "tools/importers/onnx/extent.h"
#include "tools/importers/onnx/stored_data.h"

namespace gpuplan::onnx_import {

constexpr std::size_t kMaxContent = 8192;                    // elements of a tensor whose values are computed with
constexpr std::size_t kMaxRank = 8;                          // as Shape::kMaxRank
constexpr std::size_t kMaxComputed = std::size_t{16} << 20;  // elements of all constants, each time that they are read
constexpr std::size_t kMaxValues = std::size_t{1} << 20;     // of a graph

using Real = std::array<double, 2>;  // for the two batches of extent.h

/// The elements of a small tensor: integers and booleans, or reals.
struct Content {
  bool real = false;
  Extents integers;
  std::vector<Real> reals;
  std::size_t size() const { return real ? reals.size() : integers.size(); }
};

enum class ValueKind : std::uint8_t {
  unknown,   // nothing has computed it yet
  constant,  // follows from the graph alone: index tables, masks, sizes
  weight,    // an initializer that a model would train, or a view of it
  data,      // depends on the model's inputs
};

constexpr int kNone = -1;

struct Value {
  std::string name;
  ValueKind kind = ValueKind::unknown;
  DType type = DType::fp32;
  Extents shape;
  std::optional<Content> content;  // of constants with at most kMaxContent elements
  int initializer = kNone;         // the value of the initializer that a weight is or views
  bool transposed = false;         // a weight of two dimensions, the other way around
  int producer = kNone;            // the node
  std::vector<int> users;          // nodes, each as often as it reads the value
  std::size_t released = 0;        // fuse.cpp: how often a user was replaced since they were looked over
  bool is_output = false;
  bool is_buffer = false;  // an initializer that the file says is none of the parameters
};

/// True where a constant of this shape is small enough to compute with.
bool is_small(const Extents& shape);

/// The integer that a constant of one element is; empty for anything else.
std::optional<std::int64_t> integer_of(const Value& value);

/// An attribute of a type that no operator which is known has: "a graph".
struct UnreadAttribute {
  std::string_view type;
};
using Attribute = std::variant<UnreadAttribute, std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>, Value>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// A node of a branch of an If: it runs where this value is true, or where it is not.
struct Guard {
  int condition = kNone;
  bool when = true;
};

struct Node {
  std::string op;      // "Conv"; what several nodes were fused to has a name of its own
  std::string domain;  // empty for ONNX's own
  std::string name;
  std::vector<int> inputs;  // values; kNone where an optional one is left out
  std::vector<int> outputs;
  Attributes attributes;  // read by NodeView
  // What torch.onnx's newer exporter notes of the call in PyTorch that the node is part of.
  std::string module;                 // "layer1.0.conv1"
  std::string call;                   // "aten.linear.default"
  std::vector<std::string> operands;  // the names that the call's tensors had
  bool gone = false;                  // folded, or part of another node
  std::vector<Guard> guards;          // of the branches that it lies in, the outermost first
  bool is_choice = false;             // an If: its condition, and its result in each branch
};

/// A weight by a made-up name of the sizes of an embedding's, turned (turned_copies.h).
struct TurnedCopy {
  enum class Found : std::uint8_t { unknown, different, equal };
  Found found = Found::unknown;
  int table = kNone;          // the embedding's weight
  std::int64_t compared = 0;  // elements
};

struct Graph {
  std::string file;
  std::string name;
  std::string producer;  // "pytorch 2.8"
  std::int64_t opset = 0;
  bool quantized = false;        // quantized.h left operators out
  std::size_t computed = 0;      // elements of constants that infer() has gone over
  std::int64_t fixed_batch = 0;  // that the file was written for; 0: any
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> inputs;  // without the initializers
  std::vector<int> outputs;
  std::map<std::string, int, std::less<>> parameters;  // by the name in operands: initializers that the exporter noted
  std::vector<Variable> dimensions;                    // the dynamic ones that were given a value
  std::map<int, StoredData> stored;                    // of initializers that are matrices of floating point
  std::map<int, TurnedCopy> turned;                    // by the initializer that is the copy

  Value& value(int i) { return values[static_cast<std::size_t>(i)]; }
  const Value& value(int i) const { return values[static_cast<std::size_t>(i)]; }
  int add(Value value) {
    values.push_back(std::move(value));
    return static_cast<int>(values.size()) - 1;
  }
};

/// True of a name that an exporter made up ("onnx::MatMul_123", "/encoder/Constant_output_0", "val_7"), which says
/// nothing about the model.
bool is_generated(std::string_view name);

/// True where a Gather reads nn.Embedding's table, which is called weight. Other parameters are indexed by code, as
/// tables of relative positions are. The newer exporter notes which call it was.
bool is_embedding_table(const Node& gather, const Value& table);

/// "node /layer1/conv (Conv)", for messages; control characters are left out.
std::string describe(const Node& node);
std::string printable(std::string_view text);

/// Sets what the notes of a node (strip.h) say of it.
void read_notes(std::string_view notes, Node& node);
/// The text of one of the notes; empty: there is none.
std::string_view note_of(std::string_view notes, std::string_view key);
/// Of a file with notes: initializers without one are what the exporter made. They stay weights where a layer reads
/// them as its weight, as those that were turned or that batch norms went into are; others are folded tables.
void drop_folded_tables(Graph& graph, const std::vector<int>& without_note);
/// Weights that the exporter turned and named anew, as what they were made of, where the file still has that: so tied
/// weights are tied.
void tie_turned_weights(Graph& graph);

/// Nodes behind what they read; in the file's order where that is one. ONNX asks for it, not every writer does it.
/// Throws Error: the graph is cyclic.
void sort_nodes(Graph& graph);

/// Whether a Gather by `index` takes all of `of`, whose one dimension holds a batch that the file wrote down, in order:
/// torch.onnx's newer exporter writes as_strided so, which is then a reshape. Positions that lie in another file are
/// taken to be in order where they are as many as the elements.
bool takes_all_in_order(const Graph& graph, const Value& of, const Value& index);

/// The graph of a serialized ModelProto, with the nodes of functions in the place of their calls, and those of both
/// branches of an If before it, whose data may be stripped. `set` gives dynamic dimensions other than the
/// batch their values. Throws Error: it is malformed, cyclic, names a value twice, or a dimension has no value.
Graph read_graph(const std::string& model, const std::string& file, const std::vector<Variable>& set);

}  // namespace gpuplan::onnx_import
