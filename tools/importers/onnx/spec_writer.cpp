#include "tools/importers/onnx/spec_writer.h"
#include "estimator/base/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "estimator/spec/limits.h"

namespace gpuplan::onnx_import {
namespace {

constexpr std::size_t kMaxListed = 20;

const std::unordered_map<std::string_view, EmitRule>& emit_rules() {
  static const std::unordered_map<std::string_view, EmitRule> all = [] {
    std::unordered_map<std::string_view, EmitRule> map;
    for (const auto& list : {layer_emitters(), lookup_emitters(), pooling_emitters(), reduction_emitters(),
                             pointwise_emitters(), movement_emitters(), einsum_emitters()})
      for (const NamedEmitRule& r : list) map.emplace(r.op, r.rule);
    return map;
  }();
  return all;
}

// The nodes that an output of the graph follows from.
std::vector<char> used_nodes(const Graph& graph) {
  std::vector<char> used(graph.nodes.size(), 0);
  std::vector<int> next = graph.outputs;
  while (!next.empty()) {
    const int producer = graph.value(next.back()).producer;
    next.pop_back();
    if (producer == kNone || used[static_cast<std::size_t>(producer)] != 0) continue;
    used[static_cast<std::size_t>(producer)] = 1;
    for (const int v : graph.nodes[static_cast<std::size_t>(producer)].inputs)
      if (v != kNone) next.push_back(v);
  }
  return used;
}

// What no layer computes: operators by their names, and nodes of the others, each with the reason.
class Refused {
 public:
  void add_operator(const Node& n) { operators_[printable(n.op)].push_back(printable(n.name)); }
  void add_node(const Error& error) {
    if (count_++ < kMaxListed) nodes_.push_back(error);
  }

  /// Throws Error that lists them, if there are any.
  void refuse(const std::string& file) const {
    if (operators_.empty() && nodes_.empty()) return;
    if (operators_.empty() && nodes_.size() == 1) throw Error(nodes_.front());
    std::vector<std::string> lines;
    for (const auto& [op, nodes] : operators_)
      lines.push_back(op + ": " + (nodes.front().empty() ? "an unnamed node" : nodes.front()) +
                      (nodes.size() > 1 ? " and " + std::to_string(nodes.size() - 1) + " more" : ""));
    for (const Error& e : nodes_)
      lines.push_back(e.message().substr(e.message().starts_with(file) ? file.size() + 2 : 0));
    std::string list;
    for (std::size_t i = 0; i < std::min(lines.size(), kMaxListed); ++i) list += "\n    " + lines[i];
    const std::size_t all = operators_.size() + count_;
    if (all > kMaxListed) list += "\n    and " + std::to_string(all - kMaxListed) + " more";
    throw Error(file + ": operators that no layer of gpuplan computes:" + list);
  }

 private:
  std::map<std::string, std::vector<std::string>> operators_;
  std::vector<Error> nodes_;  // the first
  std::size_t count_ = 0;     // of all
};

bool depends_on_batch(const Extents& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Extent& e) { return !e.fixed(); });
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

bool has_layer(const Node& node) { return node.domain.empty() && emit_rules().contains(node.op); }

std::string to_text(double number) { return number_text(number); }

std::string to_text(float number) {
  std::array<char, 32> text{};
  const auto [end, problem] = std::to_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() ? std::string(text.data(), end) : "0";
}

std::string list_text(const std::vector<std::int64_t>& sizes) {
  std::string text = "[";
  for (const std::int64_t n : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

std::string pair_text(const std::vector<std::int64_t>& sizes) {
  const bool alike = !sizes.empty() && std::all_of(sizes.begin(), sizes.end(), [&](auto n) { return n == sizes[0]; });
  return alike ? std::to_string(sizes.front()) : list_text(sizes);
}

// --- a rule's node --------------------------------------------------------------------------------------------------

const Value& Emission::result(std::size_t i) const {
  if (i >= outputs() || node().outputs[i] == kNone) fail("its result " + std::to_string(i) + " is left out");
  return graph().value(node().outputs[i]);
}

std::optional<double> Emission::number(std::size_t i) const {
  if (!has(i) || in(i).kind != ValueKind::constant || !in(i).content || in(i).content->size() != 1) return std::nullopt;
  const Content& c = *in(i).content;
  if (c.real) return c.reals[0][0] == c.reals[0][1] ? std::optional<double>(c.reals[0][0]) : std::nullopt;
  return c.integers[0].fixed() ? std::optional<double>(static_cast<double>(c.integers[0].at[0])) : std::nullopt;
}

// Operators of which an operand may lack the batch that another one has, element by element.
static bool spreads(std::string_view op) {
  constexpr std::array<std::string_view, 16> kSpreading = {"Add",   "Sub",  "Mul",         "Div",     "Mod",
                                                           "Pow",   "Max",  "Min",         "Sum",     "Where",
                                                           "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                                           "And"};
  return std::find(kSpreading.begin(), kSpreading.end(), op) != kSpreading.end();
}

bool Emission::is_spread(std::size_t i) const {
  if (!spreads(node().op) && node().op != "ScaledDotProductAttention") return false;
  const Extents& own = shape(i);
  const auto has_batch = [&](std::size_t from_last, const Value& v) {
    return v.kind == ValueKind::data && v.shape.size() > from_last &&
           v.shape[v.shape.size() - 1 - from_last] == own[own.size() - 1 - from_last];
  };
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (own[own.size() - 1 - d].fixed()) continue;
    bool found = false;
    for (std::size_t j = 0; j < inputs(); ++j) found = found || (j != i && has(j) && has_batch(d, in(j)));
    if (!found) return false;
  }
  return true;
}

// A constant that the exporter folded for the batch that it was given, such as zeros_like: its samples are alike as far
// as a file can say, and one of them is spread over any batch.
void Emission::shorten_to_one_sample(std::size_t i) {
  if (graph().fixed_batch <= 1 || in(i).kind != ValueKind::constant) return;
  const Extents& to = result().shape;
  Value& constant = writer_.graph().value(value(i));
  for (std::size_t d = 0; d < constant.shape.size() && d < to.size(); ++d) {
    Extent& own = constant.shape[constant.shape.size() - 1 - d];
    if (own.fixed() && own.at[0] > 1 && !to[to.size() - 1 - d].fixed()) own = 1;
  }
}

std::string Emission::input(std::size_t i) {
  if (spreads(node().op)) shorten_to_one_sample(i);
  const bool is_one_for_all = in(i).kind == ValueKind::constant && depends_on_batch(in(i).shape);
  return is_one_for_all && !is_spread(i) ? writer_.name_for_the_batch(value(i)) : writer_.name_of(value(i));
}

std::int64_t Emission::fixed(const Extent& e, std::string_view what) const {
  if (!e.fixed()) fail(std::string(what) + " depends on the batch: " + to_string(e));
  return e.at[0];
}

std::string Emission::sizes(const Extents& shape) const {
  std::vector<std::int64_t> out;
  for (const Extent& e : shape) {
    if (!e.fixed() && std::find(out.begin(), out.end(), -1) != out.end())
      fail("two sizes depend on the batch: " + to_string(shape));
    out.push_back(e.fixed() ? e.at[0] : -1);
  }
  return list_text(out);
}

// --- entries --------------------------------------------------------------------------------------------------------

SpecWriter::SpecWriter(Graph& graph) : graph_(graph), modules_(graph) { write_inputs(); }

void SpecWriter::fail(const Node& node, const std::string& what) const {
  throw Error(graph_.file + ": " + describe(node) + ": " + what);
}

void SpecWriter::write_inputs() {
  const bool one = graph_.inputs.size() == 1;
  inputs_text_ = one ? "" : "inputs:\n";
  for (const int i : graph_.inputs) {
    const Value& v = graph_.value(i);
    std::string shape;
    for (std::size_t d = 1; d < v.shape.size(); ++d) {
      if (!v.shape[d].fixed())
        throw Error(graph_.file + ": the input \"" + printable(v.name) +
                    "\" has the batch twice: " + to_string(v.shape));
      shape += (d > 1 ? ", " : "") + std::to_string(v.shape[d].at[0]);
    }
    const std::string type = v.type == DType::fp32 ? "" : ", dtype: " + std::string(gpuplan::name_of(v.type));
    const std::string name = one ? "input" : taken_.take(v.name);
    inputs_text_ += (one ? "" : "  ") + name + ": {shape: [" + shape + "]" + type + "}\n";
    names_of_[i] = name;
    if (first_input_.empty()) first_input_ = name;
  }
}

std::string SpecWriter::add(std::string_view wish, const std::string& call, const std::vector<std::string>& from) {
  if (entries_.size() >= static_cast<std::size_t>(kMaxEntries))
    throw Error(graph_.file + " has more than " + std::to_string(kMaxEntries) + " operations");
  entries_.push_back({taken_.take(wish), call, "", from});
  return entries_.back().name;
}

std::string SpecWriter::add_with_weight(int weight, std::string_view wish, const std::string& call,
                                        const std::vector<std::string>& from) {
  const std::string name = add(wish, call, from);
  const int initializer = graph_.value(weight).initializer;
  if (initializer == kNone) return name;
  const auto [first, fresh] = layer_of_.try_emplace(initializer, name);
  if (!fresh) entries_.back().tie = first->second;
  if (call.starts_with("Embedding(")) embeddings_.insert(initializer);
  return name;
}

void SpecWriter::give_parts(const std::vector<int>& values, const std::string& name) {
  taken_.reserve_parts(name, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != kNone) names_of_[values[i]] = values.size() == 1 ? name : name + "." + std::to_string(i);
}

std::string SpecWriter::name_of(int value) {
  if (const auto found = names_of_.find(value); found != names_of_.end()) return found->second;
  const Value& v = graph_.value(value);
  if (v.kind == ValueKind::data)
    throw Error(graph_.file + ": the value \"" + printable(v.name) + "\" is used before it is computed");
  std::string name = v.kind == ValueKind::weight ? weight(value) : constant(value);
  names_of_[value] = name;
  return name;
}

std::string SpecWriter::name_for_the_batch(int value) {
  if (const auto found = repeated_.find(value); found != repeated_.end()) return found->second;
  const std::string name = name_of(value);
  std::string sizes;
  for (const Extent& e : graph_.value(value).shape) {
    if (!e.fixed() && !(e == batch_extent()))
      throw Error("\"" + printable(graph_.value(value).name) + "\" is repeated to " + to_string(e) +
                  ", a size that no layer supports");
    sizes += (sizes.empty() ? "" : ", ") + std::string(e.fixed() ? "-1" : "_");
  }
  return repeated_[value] = add(name + "_expand", "Expand(" + sizes + ")", {name});
}

// A view of a view of a weight, and so on: from the weight on, as there may be thousands of them.
std::string SpecWriter::view_of_weight(int value) {
  std::vector<int> views;
  for (int v = value; v != graph_.value(v).initializer && !names_of_.contains(v);) {
    views.push_back(graph_.value(v).producer);
    v = graph_.nodes[static_cast<std::size_t>(views.back())].inputs.front();
  }
  for (auto view = views.rbegin(); view != views.rend(); ++view) write(*view);
  const auto found = names_of_.find(value);
  if (found == names_of_.end())
    throw Error(graph_.file + ": the value \"" + printable(graph_.value(value).name) +
                "\" is used before it is computed");
  return found->second;
}

// A weight that is read by an operator itself: a parameter, and the views of it.
std::string SpecWriter::weight(int value) {
  const Value& v = graph_.value(value);
  if (v.initializer != value) return view_of_weight(value);
  std::vector<std::int64_t> sizes;
  for (const Extent& e : v.shape) sizes.push_back(e.at[0]);
  if (const auto layer = layer_of_.find(v.initializer); layer != layer_of_.end())
    throw Error(graph_.file + ": the weight \"" + printable(v.name) + "\" of " + layer->second +
                " is read by another operator, too, which is not supported");
  // What an exporter folded is a table or a mask; a vector is a parameter that it gave other dimensions.
  const bool folded =
      is_generated(v.name) && std::count_if(sizes.begin(), sizes.end(), [](std::int64_t n) { return n != 1; }) > 1;
  return add(is_generated(v.name) ? (folded ? "constant" : "parameter") : v.name,
             (folded ? "Buffer(" : "Parameter(") + list_text(sizes) + ")", {});
}

// What follows from the graph alone is a buffer; where it has the batch's size, it is alike for all of the batch.
std::string SpecWriter::constant(int value) {
  const Value& v = graph_.value(value);
  std::vector<std::int64_t> sizes;
  for (const Extent& e : v.shape) {
    if (e == Extent(0)) throw Error(graph_.file + ": the constant \"" + printable(v.name) + "\" is empty");
    sizes.push_back(e.fixed() ? e.at[0] : 1);
  }
  if (sizes.empty()) sizes.push_back(1);
  std::string wish = is_generated(v.name) ? "" : v.name;
  if (wish.empty() && v.producer != kNone) wish = this->wish(graph_.nodes[static_cast<std::size_t>(v.producer)]);
  const std::string type = v.type == DType::fp32 ? "" : ", dtype=" + std::string(gpuplan::name_of(v.type));
  return add(wish.empty() ? "constant" : wish, "Buffer(" + list_text(sizes) + type + ")", {});
}

void SpecWriter::skip(const Node& node) {
  for (const int v : node.outputs)
    if (v != kNone) names_of_[v] = "skipped";
}

void SpecWriter::write(int index) {
  Emission emission(*this, index);
  try {
    emit_rules().at(emission.node().op)(emission);
  } catch (const Error& error) {
    if (error.message().starts_with(graph_.file)) throw;
    emission.fail(error.message());
  }
}

// --- text -----------------------------------------------------------------------------------------------------------

std::string SpecWriter::entry_text(const Entry& entry, const std::string& before) const {
  const bool chained = entry.from.empty() || (entry.from.size() == 1 && entry.from.front() == before);
  if (chained && entry.tie.empty() && !entry.keep && !is_number(entry.name) && !is_entry_word(entry.name))
    return "  - " + entry.name + ": " + entry.call + "\n";
  std::string text =
      "  - {name: " + (is_number(entry.name) ? quoted(entry.name) : entry.name) + ", op: " + quoted(entry.call);
  if (!chained && entry.from.size() == 1) text += ", from: " + entry.from.front();
  if (!chained && entry.from.size() > 1) {
    text += ", from: [";
    for (std::size_t i = 0; i < entry.from.size(); ++i) text += (i > 0 ? ", " : "") + entry.from[i];
    text += "]";
  }
  if (!entry.tie.empty()) text += ", tie: " + entry.tie;
  if (entry.keep) text += ", keep: true";
  return text + "}\n";
}

std::string SpecWriter::text() {
  // The model's result is what its last entry returns; other outputs live as long.
  std::unordered_set<std::string> kept;
  for (std::size_t i = 1; i < graph_.outputs.size(); ++i)
    if (const auto found = names_of_.find(graph_.outputs[i]); found != names_of_.end()) kept.insert(found->second);
  for (Entry& e : entries_) e.keep = e.keep || kept.contains(e.name);
  const Value& output = graph_.value(graph_.outputs.front());
  if (output.kind != ValueKind::data) throw Error(graph_.file + ": its output does not depend on its inputs");
  const std::string result = name_of(graph_.outputs.front());
  if (entries_.empty() || entries_.back().name != result) add("output", "Identity()", {result});
  std::string text = comment() + header();
  std::string before = first_input_;
  for (const Entry& e : entries_) {
    text += entry_text(e, before);
    before = e.name;
  }
  return text + (output.shape.size() == 2 && is_floating(output.type) ? "loss: CrossEntropyLoss()\n" : "loss: mean\n");
}

std::string write_spec(Graph& graph) {
  const std::vector<char> used = used_nodes(graph);
  SpecWriter writer(graph);
  Refused refused;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (used[i] == 0 || node.gone) continue;
    if (!has_layer(node)) {
      refused.add_operator(node);
      writer.skip(node);
      continue;
    }
    try {
      writer.write(static_cast<int>(i));
    } catch (const Error& error) {
      refused.add_node(error);
      writer.skip(node);
    }
  }
  refused.refuse(graph.file);
  return writer.text();
}

}  // namespace gpuplan::onnx_import
