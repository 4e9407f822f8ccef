// Operators that onnxruntime's optimizer writes (https://github.com/microsoft/onnxruntime, its page of contrib
// operators), as those of ONNX's own that they are made of.
#include "tools/importers/onnx/passes.h"

#include <unordered_map>

#include "tools/importers/onnx/node_view.h"

namespace gpuplan::onnx_import {
namespace {

// One fused node, and what is put in its place. Its own place in the list stays the last operator's; sort_nodes() puts
// the others before it.
class Fused : public NodeView {
 public:
  Fused(Graph& graph, int index) : NodeView(graph, index), graph_(graph), index_(static_cast<std::size_t>(index)) {}

  // Throws Error where an input or an output is used that is not modelled.
  void refuse_input(std::size_t i, const std::string& what) const {
    if (has(i)) fail(what + " is not modelled");
  }
  void refuse_output(std::size_t i, const std::string& what) const {
    if (i < node().outputs.size() && node().outputs[i] != kNone &&
        (!graph_.value(node().outputs[i]).users.empty() || graph_.value(node().outputs[i]).is_output))
      fail(what + " is not modelled");
  }

  int integers(std::vector<std::int64_t> numbers) {
    Value value;
    value.name = "constant";
    value.kind = ValueKind::constant;
    value.type = DType::int64;
    value.shape = {static_cast<std::int64_t>(numbers.size())};
    value.content.emplace();
    for (const std::int64_t n : numbers) value.content->integers.emplace_back(n);
    return graph_.add(std::move(value));
  }
  int number(double x) {
    Value value;
    value.name = "constant";
    value.kind = ValueKind::constant;
    value.content.emplace();
    value.content->real = true;
    value.content->reals.push_back({x, x});
    return graph_.add(std::move(value));
  }

  // Another node, whose result, `into` or a new value, is handed on.
  int add(const std::string& op, std::vector<int> inputs, Attributes attributes = {}, int into = kNone) {
    if (graph_.nodes.size() >= kMaxValues) fail("more than " + std::to_string(kMaxValues) + " operators");
    Node made;
    made.op = op;
    made.name = node().name;
    made.module = node().module;
    made.guards = node().guards;
    made.inputs = std::move(inputs);
    made.attributes = std::move(attributes);
    made.outputs = {into == kNone ? new_value() : into};
    graph_.nodes.push_back(std::move(made));
    return graph_.nodes.back().outputs.front();
  }
  std::vector<int> split(int value, int count, int sizes) {
    Node made;
    made.op = "Split";
    made.name = node().name;
    made.guards = node().guards;
    made.inputs = {value, sizes};
    made.attributes["axis"] = std::int64_t{-1};
    for (int i = 0; i < count; ++i) made.outputs.push_back(new_value());
    graph_.nodes.push_back(made);
    return made.outputs;
  }
  // The node becomes this operator; of its results the first stays.
  void become(const std::string& op, std::vector<int> inputs, Attributes attributes = {}) {
    Node& own = graph_.nodes[index_];
    own.op = op;
    own.domain.clear();
    own.inputs = std::move(inputs);
    own.attributes = std::move(attributes);
    own.outputs.resize(1);
  }
  int output(std::size_t i) const { return i < node().outputs.size() ? node().outputs[i] : kNone; }

 private:
  int new_value() {
    Value value;
    value.name = graph_.value(node().outputs.front()).name;
    return graph_.add(std::move(value));
  }
  Graph& graph_;
  std::size_t index_;
};

constexpr std::int64_t kInt64Type = 7, kBooleanType = 9;  // TensorProto.DataType
const std::vector<std::int64_t> kSwapHeads{0, 2, 1, 3};   // heads and tokens

void gelu(Fused& f) { f.become("Gelu", {f.value(0)}); }
void bias_gelu(Fused& f) { f.become("Gelu", {f.add("Add", {f.value(0), f.value(1)})}); }
void fast_gelu(Fused& f) {
  const int x = f.has(1) ? f.add("Add", {f.value(0), f.value(1)}) : f.value(0);
  f.become("Gelu", {x}, {{"approximate", std::string("tanh")}});
}
void quick_gelu(Fused& f) {
  const int x = f.value(0);
  const int scaled = f.add("Mul", {x, f.number(f.real("alpha", 1.702))});
  f.become("Mul", {x, f.add("Sigmoid", {scaled})});
}

// x + skip + bias, which is the fourth result too.
int skip_sum(Fused& f, std::size_t bias) {
  f.refuse_output(1, "the mean of a norm");
  f.refuse_output(2, "the inverse deviation of a norm");
  const int x = f.value(0), skip = f.value(1), sum = f.output(3);
  if (!f.has(bias)) return f.add("Add", {x, skip}, {}, sum);
  const int with_bias = f.add("Add", {x, f.value(bias)});
  return f.add("Add", {with_bias, skip}, {}, sum);
}
void skip_layer_norm(Fused& f) {
  const int gamma = f.value(2), beta = f.has(3) ? f.value(3) : kNone;
  const double eps = f.real("epsilon", 1e-12);
  const int sum = skip_sum(f, 4);
  f.become("LayerNormalization", {sum, gamma, beta}, {{"axis", std::int64_t{-1}}, {"epsilon", eps}});
}
int index_of(Fused& f, std::size_t input) { return f.add("Cast", {f.value(input)}, {{"to", kInt64Type}}); }

// Words, positions and, where there are any, types of tokens, added and normalized. Positions are those of the tokens
// in their order where none are given.
void embed_layer_norm(Fused& f) {
  f.refuse_output(1, "the number of tokens that are not padding");
  const int ids = index_of(f, 0), positions = f.value(3), gamma = f.value(5), beta = f.value(6);
  const int types = f.has(1) ? index_of(f, 1) : kNone, type_table = f.has(4) ? f.value(4) : kNone;
  if ((types == kNone) != (type_table == kNone)) f.fail("types of tokens come with their table");
  const double eps = f.real("epsilon", 1e-12);
  const int words = f.add("Gather", {f.value(2), ids});
  int rows = kNone;
  if (f.has(8)) {
    rows = f.add("Gather", {positions, index_of(f, 8)});
  } else {
    const int tokens = f.add("Shape", {ids}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
    rows = f.add("Slice", {positions, f.integers({0}), tokens, f.integers({0})});
  }
  int sum = f.add("Add", {words, rows}, {}, types == kNone ? f.output(2) : kNone);
  if (types != kNone) sum = f.add("Add", {sum, f.add("Gather", {type_table, types})}, {}, f.output(2));
  f.become("LayerNormalization", {sum, gamma, beta}, {{"axis", std::int64_t{-1}}, {"epsilon", eps}});
}
void simplified_norm(Fused& f) {
  f.refuse_output(1, "the inverse deviation of a norm");
  if (f.integer("axis", -1) != -1) f.fail("a norm over another dimension than the last is not modelled");
  f.become("RootMeanSquareNorm", {f.value(0), f.value(1)}, {{"epsilon", f.real("epsilon", 1e-5)}});
}
void skip_simplified_norm(Fused& f) {
  const int gamma = f.value(2);
  const double eps = f.real("epsilon", 1e-12);
  const int sum = skip_sum(f, 3);
  f.become("RootMeanSquareNorm", {sum, gamma}, {{"epsilon", eps}});
}

// A product, with the activation that is computed of it.
void with_activation(Fused& f, const std::string& op, const std::vector<int>& inputs, int added) {
  Attributes own = f.node().attributes;
  const std::string activation(f.text("activation", ""));
  // FusedConv has a list, FusedGemm a number by each name.
  std::vector<double> numbers = f.reals("activation_params");
  for (const char* key : {"activation_alpha", "activation_beta"})
    if (f.has_attribute(key)) numbers.push_back(f.real(key, 0));
  for (const char* key : {"activation", "activation_params", "activation_alpha", "activation_beta"}) own.erase(key);
  if (activation.empty() && added == kNone) return f.become(op, inputs, own);
  int result = f.add(op, inputs, own);
  if (added != kNone) {
    if (activation.empty()) return f.become("Add", {result, added});
    result = f.add("Add", {result, added});
  }
  if (activation == "Clip" && numbers.size() == 2)
    return f.become("Clip", {result, f.number(numbers[0]), f.number(numbers[1])});
  if (activation == "LeakyRelu" && numbers.size() == 1) return f.become("LeakyRelu", {result}, {{"alpha", numbers[0]}});
  if (activation == "HardSigmoid" && numbers.size() == 2)
    return f.become("HardSigmoid", {result}, {{"alpha", numbers[0]}, {"beta", numbers[1]}});
  if (activation != "Relu" && activation != "Sigmoid" && activation != "Tanh")
    f.fail("the activation \"" + printable(activation) + "\" is not known");
  f.become(activation, {result});
}
std::vector<int> first_inputs(const Fused& f, std::size_t count) {
  std::vector<int> inputs{f.value(0), f.value(1)};
  for (std::size_t i = 2; i < count && f.has(i); ++i) inputs.push_back(f.value(i));
  return inputs;
}
void fused_conv(Fused& f) { with_activation(f, "Conv", first_inputs(f, 3), f.has(3) ? f.value(3) : kNone); }
void fused_gemm(Fused& f) { with_activation(f, "Gemm", first_inputs(f, 3), kNone); }

// alpha * A B, either of them transposed.
void fused_matmul(Fused& f) {
  for (const char* key : {"transBatchA", "transBatchB"})
    if (f.integer(key, 0) != 0) f.fail("an operand whose batch is transposed is not modelled");
  const auto operand = [&](std::size_t i, std::string_view key) {
    const int value = f.value(i);
    return f.integer(key, 0) == 0 ? value : f.add("Transpose", {value}, {{"swaps_last", std::int64_t{1}}});
  };
  const int a = operand(0, "transA"), b = operand(1, "transB");
  const double alpha = f.real("alpha", 1);
  if (alpha == 1) return f.become("MatMul", {a, b});
  f.become("Mul", {f.add("MatMul", {a, b}), f.number(alpha)});
}

// [batch, tokens, heads * size] as [batch, heads, tokens, size].
int heads_of(Fused& f, int x, std::int64_t heads) {
  const int parts = f.add("Reshape", {x, f.integers({0, 0, heads, -1})});
  return f.add("Transpose", {parts}, {{"perm", kSwapHeads}});
}
// A mask of tokens [batch, tokens], numbers that are 0 where there is none, as PyTorch's kernels take it.
int mask_of_tokens(Fused& f, std::size_t input) {
  if (f.shape(input).size() != 2) f.fail("a mask that is not of every token, [batch, tokens], is not modelled");
  const int known = f.add("Cast", {f.value(input)}, {{"to", kBooleanType}});
  return f.add("Unsqueeze", {known, f.integers({1, 2})});
}
// Of the tokens that are not padding, or a bias of the scores, of which attention has one at most.
int mask_of(Fused& f, std::size_t tokens, std::size_t bias, bool causal) {
  if (f.has(tokens) && f.has(bias)) f.fail("a token mask together with a score bias is not modelled");
  if (causal && (f.has(tokens) || f.has(bias))) f.fail("another mask together with the causal one is not modelled");
  return f.has(tokens) ? mask_of_tokens(f, tokens) : f.has(bias) ? f.value(bias) : kNone;
}
void attend(Fused& f, int q, int k, int v, int mask, std::int64_t heads, bool causal) {
  const int queries = heads_of(f, q, heads), keys = heads_of(f, k, heads), values = heads_of(f, v, heads);
  const int joined =
      f.add("ScaledDotProductAttention", {queries, keys, values, mask}, {{"is_causal", std::int64_t{causal ? 1 : 0}}});
  const int turned = f.add("Transpose", {joined}, {{"perm", kSwapHeads}});
  f.become("Reshape", {turned, f.integers({0, 0, -1})});
}
std::int64_t head_count(const Fused& f) {
  const std::int64_t heads = f.integer("num_heads", 0);
  if (heads < 1) f.fail("its number of heads is " + std::to_string(heads));
  return heads;
}
void attention(Fused& f) {
  f.refuse_input(4, "a cache of keys and values");
  f.refuse_output(1, "a cache of keys and values");
  if (f.integer("do_rotary", 0) != 0) f.fail("positions that it rotates itself are not modelled");
  if (f.has_attribute("qkv_hidden_sizes")) f.fail("queries and values of different sizes are not modelled");
  const Extents& weight = f.shape(1);
  if (weight.size() != 2 || !weight[1].fixed() || weight[1].at[0] % 3 != 0)
    f.fail("its weight is not of queries, keys and values");
  const std::int64_t hidden = weight[1].at[0] / 3, heads = head_count(f);
  if (hidden % heads != 0)
    f.fail("its width of " + std::to_string(hidden) + " cannot be divided into " + std::to_string(heads) + " heads");
  const bool causal = f.integer("unidirectional", 0) != 0;
  int product = f.add("MatMul", {f.value(0), f.value(1)});
  if (f.has(2)) product = f.add("Add", {product, f.value(2)});
  const std::vector<int> parts = f.split(product, 3, f.integers({hidden, hidden, hidden}));
  attend(f, parts[0], parts[1], parts[2], mask_of(f, 3, 5, causal), heads, causal);
}
void multi_head_attention(Fused& f) {
  for (std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (!f.has(i)) f.fail("queries, keys and values packed into one tensor are not modelled");
  f.refuse_input(3, "a bias of queries, keys and values");
  f.refuse_input(6, "a cache of keys and values");
  f.refuse_output(1, "a cache of keys and values");
  const bool causal = f.integer("unidirectional", 0) != 0;
  attend(f, f.value(0), f.value(1), f.value(2), mask_of(f, 4, 5, causal), head_count(f), causal);
}

using FusedRule = void (*)(Fused&);

FusedRule fused_rule_of(const Node& node) {
  static const std::unordered_map<std::string_view, FusedRule> all = {
      {"Gelu", gelu},
      {"BiasGelu", bias_gelu},
      {"FastGelu", fast_gelu},
      {"QuickGelu", quick_gelu},
      {"SkipLayerNormalization", skip_layer_norm},
      {"SimplifiedLayerNormalization", simplified_norm},
      {"SkipSimplifiedLayerNormalization", skip_simplified_norm},
      {"EmbedLayerNormalization", embed_layer_norm},
      {"FusedConv", fused_conv},
      {"FusedGemm", fused_gemm},
      {"FusedMatMul", fused_matmul},
      {"TransposeMatMul", fused_matmul},  // its first name
      {"Attention", attention},
      {"MultiHeadAttention", multi_head_attention},
  };
  // onnxruntime has this one among ONNX's own operators.
  const bool is_theirs = node.domain == "com.microsoft" || node.op == "SimplifiedLayerNormalization";
  const auto found = is_theirs ? all.find(node.op) : all.end();
  return found == all.end() ? nullptr : found->second;
}

// Who makes and who reads each value, of the nodes as they are now.
void link(Graph& graph) {
  for (Value& value : graph.values) {
    value.producer = kNone;
    value.users.clear();
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int v : graph.nodes[i].inputs)
      if (v != kNone) graph.value(v).users.push_back(static_cast<int>(i));
    for (const int v : graph.nodes[i].outputs)
      if (v != kNone) graph.value(v).producer = static_cast<int>(i);
  }
}

}  // namespace

void decompose(Graph& graph) {
  const std::size_t count = graph.nodes.size();
  bool changed = false;
  for (std::size_t i = 0; i < count; ++i) {
    const FusedRule rule = fused_rule_of(graph.nodes[i]);
    if (rule == nullptr || graph.nodes[i].outputs.empty() || graph.nodes[i].outputs.front() == kNone) continue;
    Fused fused(graph, static_cast<int>(i));
    rule(fused);
    changed = true;
  }
  if (!changed) return;
  link(graph);
  sort_nodes(graph);
}

}  // namespace gpuplan::onnx_import
