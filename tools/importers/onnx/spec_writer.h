// Writes a graph down as the entries of a spec, one for each operation.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/importers/onnx/graph.h"
#include "tools/importers/onnx/infer.h"
#include "tools/importers/onnx/names.h"

namespace gpuplan::onnx_import {

/// True where write_spec() knows what layer the operator is.
bool has_layer(const Node& node);

/// The text of a spec. Throws Error that names the node, or lists all operators that are no layer of the catalog's.
std::string write_spec(Graph& graph);

/// What an operator's rule writes with: one node, and the entries so far.
class SpecWriter {
 public:
  explicit SpecWriter(Graph& graph);

  Graph& graph() { return graph_; }
  /// Writes one node that computes.
  void write(int index);
  /// Takes the results of a node that no layer computes for something, so that others can be looked at.
  void skip(const Node& node);
  std::string text();

  // --- for the rules
  /// An entry's name for this value, written first where it is a weight or constant that nothing has used yet.
  std::string name_of(int value);
  /// The same of a constant, with the batch where its shape has it.
  std::string name_for_the_batch(int value);
  /// Appends `NAME: CALL` and returns the name. `from`: names of entries.
  std::string add(std::string_view wish, const std::string& call, const std::vector<std::string>& from);
  /// As add(), of a layer whose weight is this value; one that has been used before is tied.
  std::string add_with_weight(int weight, std::string_view wish, const std::string& call,
                              const std::vector<std::string>& from);
  /// True where a layer has this initializer as its weight.
  bool has_layer_of(int initializer) const { return layer_of_.contains(initializer); }
  /// What an entry for the node is best called.
  std::string wish(const Node& node) const { return modules_.name_of(graph_, node); }
  /// The value is this entry's result.
  void give(int value, std::string name) { names_of_[value] = std::move(name); }
  /// The results are an entry's of several.
  void give_parts(const std::vector<int>& values, const std::string& name);
  [[noreturn]] void fail(const Node& node, const std::string& what) const;

 private:
  struct Entry {
    std::string name, call, tie;
    std::vector<std::string> from;
    bool keep = false;
  };
  void write_inputs();
  std::string constant(int value);
  std::string weight(int value);
  std::string view_of_weight(int value);
  std::string comment() const;
  std::string tied_notes() const;
  std::string header();
  std::string entry_text(const Entry& entry, const std::string& before) const;

  Graph& graph_;
  Modules modules_;
  Names taken_;
  std::vector<Entry> entries_;
  std::unordered_map<int, std::string> names_of_;  // of values
  std::unordered_map<int, std::string> repeated_;  // constants, repeated for the batch
  std::map<int, std::string> layer_of_;            // of initializers: the first layer with that weight
  std::set<int> embeddings_;                       // initializers that are tables
  std::string inputs_text_;
  std::string first_input_;
};

/// A node, as a rule sees it.
class Emission : public Inference {
 public:
  Emission(SpecWriter& writer, int index) : Inference(writer.graph(), index), writer_(writer) {}

  SpecWriter& writer() { return writer_; }
  /// The entry that an operand is. A constant that is one for all of the batch is repeated for it, unless the operator
  /// spreads it over another operand that has the batch.
  std::string input(std::size_t i);
  /// Throws Error where it is left out.
  const Value& result(std::size_t i = 0) const;
  std::string wish() const { return writer_.wish(node()); }
  /// True of a weight that an entry has already.
  bool is_tied(std::size_t i) const { return writer_.has_layer_of(in(i).initializer); }
  /// The number that a constant of one element is; empty for anything else.
  std::optional<double> number(std::size_t i) const;
  /// An entry of one input and one result.
  void layer(const std::string& call) { give(writer_.add(wish(), call, {input(0)})); }
  void give(std::string name) { writer_.give(node().outputs.front(), std::move(name)); }
  /// The result is the input itself.
  void pass() { give(input(0)); }
  /// A size that does not depend on the batch. Throws Error.
  std::int64_t fixed(const Extent& e, std::string_view what) const;
  /// "[-1, 3, 224]": the sizes of a shape, the one that depends on the batch as -1.
  std::string sizes(const Extents& shape) const;

 private:
  bool is_spread(std::size_t i) const;
  void shorten_to_one_sample(std::size_t i);

  SpecWriter& writer_;
};

using EmitRule = std::function<void(Emission&)>;
struct NamedEmitRule {
  std::string_view op;
  EmitRule rule;
};
std::vector<NamedEmitRule> layer_emitters();
std::vector<NamedEmitRule> lookup_emitters();
std::vector<NamedEmitRule> pooling_emitters();
std::vector<NamedEmitRule> reduction_emitters();
std::vector<NamedEmitRule> pointwise_emitters();
std::vector<NamedEmitRule> movement_emitters();
std::vector<NamedEmitRule> einsum_emitters();

/// "0.1", "1e-05", as the shortest text that reads back.
std::string to_text(double number);
std::string to_text(float number);
/// "3" or "[3, 2]".
std::string pair_text(const std::vector<std::int64_t>& sizes);
std::string list_text(const std::vector<std::int64_t>& sizes);

}  // namespace gpuplan::onnx_import
