// Operators that are one operation of PyTorch's and several of ONNX's.
#include "tools/importers/onnx/passes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/importers/onnx/pattern.h"

namespace gpuplan::onnx_import {

const Value& Pattern::value(int v) const {
  static const Value none;
  return v == kNone ? none : graph_.value(v);
}

int Pattern::from(int value, std::string_view op) {
  if (value == kNone) return kNone;
  const int producer = graph_.value(value).producer;
  if (producer == kNone || node(producer).gone || node(producer).op != op || !node(producer).domain.empty())
    return kNone;
  remember(producer);
  return producer;
}

int Pattern::to(int value, std::string_view op) {
  const Value& v = this->value(value);
  if (v.users.size() != 1 || v.is_output) return kNone;
  const int user = v.users.front();
  if (node(user).gone || node(user).op != op) return kNone;
  remember(user);
  return user;
}

int Pattern::input(int n, std::size_t i) const { return i < node(n).inputs.size() ? node(n).inputs[i] : kNone; }

int Pattern::beside(int n, int value) const {
  if (node(n).inputs.size() != 2) return kNone;
  return input(n, 0) == value ? input(n, 1) : input(n, 1) == value ? input(n, 0) : kNone;
}

std::optional<double> Pattern::number(int value) const {
  if (value == kNone) return std::nullopt;
  const Value& v = graph_.value(value);
  if (v.kind != ValueKind::constant || !v.content || v.content->size() != 1) return std::nullopt;
  if (v.content->real) return v.content->reals[0][0];
  return static_cast<double>(v.content->integers[0].at[0]);
}

bool Pattern::is_number(int value, double expected) const {
  const std::optional<double> n = number(value);
  return n && std::abs(*n - expected) <= 2e-3 * std::max(std::abs(expected), 1e-3);  // also of half precision
}

int Pattern::beside_number(int n, double expected) const {
  if (node(n).inputs.size() != 2) return kNone;
  if (is_number(input(n, 1), expected)) return input(n, 0);
  if (is_number(input(n, 0), expected)) return input(n, 1);
  return kNone;
}

Node fused_node(std::string op, std::vector<int> inputs, int output) {
  Node n;
  n.op = std::move(op);
  n.inputs = std::move(inputs);
  n.outputs = {output};
  return n;
}

// A value of thousands of users, of which each pattern takes some, is looked over when half of them may be gone: there
// are more than one of them left all the while, which is what patterns ask for.
void Pattern::release(Value& value, int v) {
  constexpr std::size_t kMany = 64;
  constexpr std::size_t kMaxFusedInputs = 8;
  if (value.users.size() > kMany && ++value.released < value.users.size() / 2) return;
  value.released = 0;
  std::sort(value.users.begin(), value.users.end());
  std::vector<int> users;
  for (auto first = value.users.begin(); first != value.users.end();) {
    const auto last = std::upper_bound(first, value.users.end(), *first);
    const Node& user = node(*first);
    auto times = last - first;  // of a node of more inputs, which is none that was put here
    if (user.inputs.size() <= kMaxFusedInputs) times = std::count(user.inputs.begin(), user.inputs.end(), v);
    if (!user.gone) users.insert(users.end(), static_cast<std::size_t>(times), *first);
    first = last;
  }
  value.users = std::move(users);
}

bool Pattern::replace(Node fused, bool at_first) {
  std::sort(nodes_.begin(), nodes_.end());
  nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
  const auto within = [&](int n) { return std::binary_search(nodes_.begin(), nodes_.end(), n); };
  for (const int n : nodes_)
    for (const int v : node(n).outputs) {
      if (v == kNone || std::find(fused.outputs.begin(), fused.outputs.end(), v) != fused.outputs.end()) continue;
      const Value& value = graph_.value(v);
      if (value.is_output || !std::all_of(value.users.begin(), value.users.end(), within)) return false;
    }
  const int place = at_first ? nodes_.front() : nodes_.back();
  std::vector<int> read;
  for (const int n : nodes_) {
    read.insert(read.end(), node(n).inputs.begin(), node(n).inputs.end());
    graph_.nodes[static_cast<std::size_t>(n)].gone = true;
  }
  for (const int v : fused.inputs)
    if (v != kNone) graph_.value(v).users.push_back(place);
  for (const int v : fused.outputs)
    if (v != kNone) graph_.value(v).producer = place;
  if (fused.name.empty()) fused.name = node(place).name;
  if (fused.module.empty()) fused.module = node(place).module;
  graph_.nodes[static_cast<std::size_t>(place)] = std::move(fused);
  for (const int v : read)
    if (v != kNone) release(graph_.value(v), v);
  return true;
}

namespace {

// Types of floating point are the run's own: such a cast is nothing, and would stand between what belongs together.
void drop_casts(Graph& graph) {
  std::vector<int> sources;  // of those that are gone: they leave their users together, as one may have thousands
  for (Node& cast : graph.nodes) {
    if (cast.gone || (cast.op != "Cast" && cast.op != "Identity") || !cast.domain.empty()) continue;
    if (cast.outputs.empty() || cast.outputs.front() == kNone) continue;
    const int from = cast.inputs.front();
    const int to = cast.outputs.front();
    Value& source = graph.value(from);
    Value& result = graph.value(to);
    const bool alike = source.type == result.type || (is_floating(source.type) && is_floating(result.type));
    if (!alike || result.is_output || source.kind != ValueKind::data) continue;
    sources.push_back(from);
    for (const int user : result.users) {
      for (int& v : graph.nodes[static_cast<std::size_t>(user)].inputs)
        if (v == to) v = from;
      source.users.push_back(user);
    }
    result.users.clear();
    cast.gone = true;
  }
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  for (const int v : sources)
    std::erase_if(graph.value(v).users, [&](int user) { return graph.nodes[static_cast<std::size_t>(user)].gone; });
}

}  // namespace

void fuse(Graph& graph) {
  drop_casts(graph);
  constexpr std::array kFusions = {fuse_attention,    fuse_stochastic_depth,
                                   fuse_layer_norm,   fuse_rms_norm,
                                   fuse_normalize,    fuse_group_norm,
                                   fuse_gelu,         fuse_tanh_gelu,
                                   fuse_hard_swish,   fuse_gate,
                                   fuse_linear,       fuse_not_equal,
                                   fuse_strided_view, fuse_rsqrt,
                                   fuse_max,          fuse_batch_statistics,
                                   fuse_recurrent};
  for (const auto& fusion : kFusions)
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].gone) continue;
      Pattern p(graph);
      fusion(p, static_cast<int>(i));
    }
}

}  // namespace gpuplan::onnx_import
