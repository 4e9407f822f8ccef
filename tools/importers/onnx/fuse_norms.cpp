// Linear layers and normalisation.
#include <algorithm>
#include <numeric>

#include "tools/importers/onnx/pattern.h"

namespace gpuplan::onnx_import {
namespace {

// The axes that a reduction names, as an attribute or an input.
std::vector<std::int64_t> reduced_axes(Pattern& p, int node) {
  std::vector<std::int64_t> axes;
  if (p.view(node).has_attribute("axes")) {
    axes = p.view(node).integers("axes");
  } else if (p.input(node, 1) != kNone && p.value(p.input(node, 1)).content) {
    for (const Extent& e : p.value(p.input(node, 1)).content->integers) axes.push_back(e.at[0]);
  }
  const auto rank = static_cast<std::int64_t>(p.value(p.input(node, 0)).shape.size());
  for (std::int64_t& a : axes)
    if (a < 0) a += rank;
  return axes;
}

// True where the reduction is over the last dimensions; `axis` is the first of them.
bool reduces_last(Pattern& p, int node, std::int64_t& axis) {
  const std::vector<std::int64_t> axes = reduced_axes(p, node);
  if (axes.empty()) return false;
  const auto rank = static_cast<std::int64_t>(p.value(p.input(node, 0)).shape.size());
  axis = rank - static_cast<std::int64_t>(axes.size());
  std::int64_t next = axis;
  for (const std::int64_t a : axes)
    if (a != next++) return false;
  return true;
}

// Also one that the exporter gave a name of its own.
bool is_weight(Pattern& p, int value) {
  if (value == kNone || !is_floating(p.value(value).type)) return false;
  return p.value(value).kind == ValueKind::weight ||
         (p.value(value).initializer != kNone && p.value(value).kind == ValueKind::constant && !p.number(value));
}

// True where the only reader of the value has a weight beside it. Asked before Pattern::to(), which remembers the node.
bool meets_weight(Pattern& p, int value) {
  const std::vector<int>& users = p.value(value).users;
  return users.size() == 1 && is_weight(p, p.beside(users.front(), value));
}

// A product with a weight behind the result and a sum with one behind that, where they are there, are of the norm.
void take_scale_and_shift(Pattern& p, int& result, std::vector<int>& inputs) {
  for (const char* op : {"Mul", "Add"}) {
    const int node = meets_weight(p, result) ? p.to(result, op) : kNone;
    if (node == kNone) return;
    inputs.push_back(p.beside(node, result));
    result = p.output(node);
  }
}

// The mean of squares of what: Add(ReduceMean(x^2), eps) behind a square root.
struct MeanSquare {
  int of = kNone;
  std::int64_t axis = 0;
  double eps = 0;
};

std::optional<MeanSquare> mean_square(Pattern& p, int root_input) {
  MeanSquare m;
  const int add = p.from(root_input, "Add");
  if (add == kNone) return std::nullopt;
  const std::optional<double> right = p.number(p.input(add, 1));
  const std::optional<double> left = p.number(p.input(add, 0));
  if (!right && !left) return std::nullopt;
  m.eps = right ? *right : *left;
  const int mean = p.from(p.input(add, right ? 0 : 1), "ReduceMean");
  if (mean == kNone || !reduces_last(p, mean, m.axis)) return std::nullopt;
  if (const int pow = p.from(p.input(mean, 0), "Pow"); pow != kNone) {
    if (!p.is_number(p.input(pow, 1), 2)) return std::nullopt;
    m.of = p.input(pow, 0);
  } else if (const int mul = p.from(p.input(mean, 0), "Mul"); mul != kNone) {
    if (p.input(mul, 0) != p.input(mul, 1)) return std::nullopt;
    m.of = p.input(mul, 0);
  }
  return m.of == kNone ? std::nullopt : std::optional<MeanSquare>(m);
}

// Whether F.batch_norm was given the weight (1) or bias (2). torch.onnx writes ones or zeros where it was not; its
// newer exporter, whose vectors lie in another file, notes the call.
bool is_given(Pattern& p, int norm, std::size_t i) {
  const Node& node = p.node(norm);
  if (node.call.starts_with("aten._native_batch_norm_legit")) return i < node.operands.size();
  const Value& value = p.value(p.input(norm, i));
  const std::optional<Content>& content = value.content;
  if (!is_generated(value.name) || !content || !content->real) return true;
  const double otherwise = i == 1 ? 1 : 0;
  return !std::all_of(content->reals.begin(), content->reals.end(), [&](const Real& r) { return r[0] == otherwise; });
}

bool reduces_all_but_channels(Pattern& p, int node) {
  std::vector<std::int64_t> axes = reduced_axes(p, node);
  std::sort(axes.begin(), axes.end());
  std::vector<std::int64_t> wanted(p.value(p.input(node, 0)).shape.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  std::erase(wanted, 1);
  return axes == wanted;
}

}  // namespace

// nn.Linear of more than two dimensions: MatMul with a transposed weight, and Add of the bias.
bool fuse_linear(Pattern& p, int add) {
  if (p.node(add).op != "Add") return false;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    p.forget();
    p.remember(add);
    const int product = p.from(p.input(add, side), "MatMul");
    const int bias = p.input(add, 1 - side);
    if (product == kNone || bias == kNone || p.value(bias).kind == ValueKind::data) continue;
    const int weight = p.input(product, 1);
    if (p.value(weight).kind == ValueKind::data || p.value(weight).is_buffer || p.value(weight).shape.size() != 2)
      continue;
    if (p.value(p.input(product, 0)).shape.size() < 2 || p.value(p.input(product, 0)).kind != ValueKind::data) continue;
    if (p.value(bias).shape != Extents{p.value(weight).shape[1]} || p.value(bias).initializer == kNone) continue;
    Node linear = fused_node("Linear", {p.input(product, 0), weight, bias}, p.output(add));
    linear.name = p.node(product).name;
    linear.module = p.node(product).module;
    return p.replace(std::move(linear));
  }
  return false;
}

// (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias, as opsets before 17 write it.
bool fuse_layer_norm(Pattern& p, int div) {
  if (p.node(div).op != "Div") return false;
  p.remember(div);
  const int sub = p.from(p.input(div, 0), "Sub");
  const int root = p.from(p.input(div, 1), "Sqrt");
  if (sub == kNone || root == kNone) return false;
  const std::optional<MeanSquare> variance = mean_square(p, p.input(root, 0));
  if (!variance) return false;
  const int squared = p.from(variance->of, "Sub");
  const int x = p.input(sub, 0);
  if (squared == kNone || p.input(squared, 0) != x) return false;
  std::int64_t axis = 0;
  for (const int difference : {sub, squared}) {
    const int mean = p.from(p.input(difference, 1), "ReduceMean");
    if (mean == kNone || p.input(mean, 0) != x || !reduces_last(p, mean, axis) || axis != variance->axis) return false;
  }
  int result = p.output(div);
  std::vector<int> inputs = {x};
  take_scale_and_shift(p, result, inputs);
  Node norm = fused_node("LayerNormalization", std::move(inputs), result);
  norm.attributes["axis"] = variance->axis;
  norm.attributes["epsilon"] = variance->eps;
  return p.replace(std::move(norm));
}

// weight * (x / sqrt(mean(x^2) + eps)), as Hugging Face's Llama and T5 write it.
bool fuse_rms_norm(Pattern& p, int scaled) {
  if (p.node(scaled).op != "Mul") return false;
  const bool first = is_weight(p, p.input(scaled, 0));
  const int weight = p.input(scaled, first ? 0 : 1);
  if (!is_weight(p, weight) || p.value(weight).shape.size() != 1) return false;
  p.remember(scaled);
  const int normalized = p.input(scaled, first ? 1 : 0);
  int x = kNone;
  int root = kNone;
  if (const int product = p.from(normalized, "Mul"); product != kNone) {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const int inverse = p.from(p.input(product, side), "Reciprocal");
      const int quotient = inverse == kNone ? p.from(p.input(product, side), "Div") : kNone;
      if (inverse == kNone && (quotient == kNone || !p.is_number(p.input(quotient, 0), 1))) continue;
      root = p.from(p.input(inverse == kNone ? quotient : inverse, inverse == kNone ? 1 : 0), "Sqrt");
      x = p.input(product, 1 - side);
      break;
    }
  } else if (const int quotient = p.from(normalized, "Div"); quotient != kNone) {
    root = p.from(p.input(quotient, 1), "Sqrt");
    x = p.input(quotient, 0);
  }
  if (root == kNone) return false;
  const std::optional<MeanSquare> square = mean_square(p, p.input(root, 0));
  const int input = x;
  if (!square || square->of != input) return false;
  if (square->axis + 1 != static_cast<std::int64_t>(p.value(input).shape.size())) return false;
  Node norm = fused_node("RootMeanSquareNorm", {input, weight}, p.output(scaled));
  norm.attributes["epsilon"] = square->eps;
  return p.replace(std::move(norm));
}

// F.normalize: x / clip(|x|, eps), repeated to the shape of x.
bool fuse_normalize(Pattern& p, int div) {
  if (p.node(div).op != "Div") return false;
  p.remember(div);
  int norm = p.input(div, 1);
  if (const int expand = p.from(norm, "Expand"); expand != kNone) norm = p.input(expand, 0);
  const int clip = p.from(norm, "Clip");
  const int length = clip == kNone ? kNone : p.from(p.input(clip, 0), "ReduceL2");
  if (length == kNone || p.input(length, 0) != p.input(div, 0)) return false;
  const std::vector<std::int64_t> axes = reduced_axes(p, length);
  if (axes.size() != 1 || p.view(length).integer("keepdims", 1) == 0) return false;
  Node normalize = fused_node("Normalize", {p.input(div, 0)}, p.output(div));
  normalize.attributes["dim"] = axes.front();
  return p.replace(std::move(normalize));
}

// F.batch_norm without running statistics, which standardised weights are made with: BatchNormalization by the mean of
// its input and the mean of the squared distances from it.
bool fuse_batch_statistics(Pattern& p, int norm) {
  if (p.node(norm).op != "BatchNormalization" || p.node(norm).outputs.size() != 1) return false;
  p.remember(norm);
  const int x = p.input(norm, 0);
  const int mean = p.from(p.input(norm, 3), "ReduceMean");
  const int variance = p.from(p.input(norm, 4), "ReduceMean");
  const int square = variance == kNone ? kNone : p.from(p.input(variance, 0), "Mul");
  if (mean == kNone || square == kNone || p.input(square, 0) != p.input(square, 1)) return false;
  const int distance = p.from(p.input(square, 0), "Sub");
  const int subtracted = distance == kNone ? kNone : p.from(p.input(distance, 1), "ReduceMean");
  if (subtracted == kNone || p.input(distance, 0) != x) return false;
  for (const int reduction : {mean, subtracted})
    if (p.input(reduction, 0) != x) return false;
  for (const int reduction : {mean, variance, subtracted})
    if (!reduces_all_but_channels(p, reduction)) return false;
  std::vector<int> inputs = {x};
  const bool shifted = is_given(p, norm, 2);
  if (shifted || is_given(p, norm, 1)) inputs.push_back(p.input(norm, 1));
  if (shifted) inputs.push_back(p.input(norm, 2));
  Node fused = fused_node("BatchStatisticsNorm", std::move(inputs), p.output(norm));
  fused.attributes["epsilon"] = p.view(norm).real("epsilon", 1e-5);
  return p.replace(std::move(fused));
}

// nn.GroupNorm before opset 18: an instance norm of [N, groups, -1], and the weights of the channels.
bool fuse_group_norm(Pattern& p, int norm) {
  if (p.node(norm).op != "InstanceNormalization" || p.value(p.input(norm, 0)).shape.size() != 3) return false;
  p.remember(norm);
  const int split = p.from(p.input(norm, 0), "Reshape");
  const int joined = p.to(p.output(norm), "Reshape");
  if (split == kNone || joined == kNone) return false;
  const int x = p.input(split, 0);
  int result = p.output(joined);
  if (p.value(x).shape != p.value(result).shape || p.value(x).shape.size() < 3) return false;
  const Extent groups = p.value(p.input(norm, 0)).shape[1];
  std::vector<int> inputs = {x};
  take_scale_and_shift(p, result, inputs);
  Node group = fused_node("GroupNormalization", std::move(inputs), result);
  group.attributes["num_groups"] = groups.at[0];
  group.attributes["epsilon"] = p.view(norm).real("epsilon", 1e-5);
  return p.replace(std::move(group));
}

}  // namespace gpuplan::onnx_import
