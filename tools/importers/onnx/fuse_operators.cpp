// Operators that PyTorch has one of and ONNX several.
#include "tools/importers/onnx/pattern.h"

namespace gpuplan::onnx_import {
namespace {

// The one axis that a reduction names, as an attribute or an input.
std::optional<std::int64_t> reduced_axis(Pattern& p, int node) {
  const auto rank = static_cast<std::int64_t>(p.value(p.input(node, 0)).shape.size());
  std::optional<std::int64_t> axis;
  if (const NodeView n = p.view(node); n.has_attribute("axes")) {
    if (n.integers("axes").size() == 1) axis = n.integers("axes").front();
  } else if (const int axes = p.input(node, 1); axes != kNone) {
    axis = integer_of(p.value(axes));
  }
  return axis && *axis < 0 ? *axis + rank : axis;
}

}  // namespace

// x != number, which ONNX has no operator for.
bool fuse_not_equal(Pattern& p, int inverted) {
  if (p.node(inverted).op != "Not") return false;
  p.remember(inverted);
  const int equal = p.from(p.input(inverted, 0), "Equal");
  if (equal == kNone || !p.number(p.input(equal, 1))) return false;
  return p.replace(fused_node("NotEqual", {p.input(equal, 0), p.input(equal, 1)}, p.output(inverted)));
}

// Tensor.as_strided, which torch.onnx's newer exporter writes as a look-up in the flattened tensor: PyTorch's view of
// the same shape that a mean over images in channels-last order ends with.
bool fuse_strided_view(Pattern& p, int gather) {
  if (p.node(gather).op != "Gather" || !p.node(gather).call.starts_with("aten.as_strided")) return false;
  p.remember(gather);
  const int flat = p.from(p.input(gather, 0), "Reshape");
  if (flat == kNone || p.value(p.input(flat, 0)).shape != p.value(p.output(gather)).shape) return false;
  return p.replace(fused_node("Identity", {p.input(flat, 0)}, p.output(gather)));
}

// 1 / sqrt(x).
bool fuse_rsqrt(Pattern& p, int inverse) {
  const std::string& op = p.node(inverse).op;
  if (op != "Reciprocal" && (op != "Div" || !p.is_number(p.input(inverse, 0), 1))) return false;
  p.remember(inverse);
  const int root = p.from(p.input(inverse, op == "Div" ? 1 : 0), "Sqrt");
  return root != kNone && p.replace(fused_node("Rsqrt", {p.input(root, 0)}, p.output(inverse)));
}

// Tensor.max of a dimension, whose values and places torch.onnx writes as two reductions.
bool fuse_max(Pattern& p, int places) {
  if (p.node(places).op != "ArgMax") return false;
  const int x = p.input(places, 0);
  const auto rank = static_cast<std::int64_t>(p.value(x).shape.size());
  std::int64_t axis = p.view(places).integer("axis", 0);
  if (axis < 0) axis += rank;
  constexpr std::size_t kMaxUsers = 64;  // of a model's: more are no model's
  if (p.value(x).users.size() > kMaxUsers) return false;
  const std::int64_t keeps = p.view(places).integer("keepdims", 1);
  for (const int values : p.value(x).users) {
    if (p.node(values).op != "ReduceMax" || p.node(values).gone || reduced_axis(p, values) != axis ||
        p.view(values).integer("keepdims", 1) != keeps)
      continue;
    p.forget();
    p.remember(places);
    p.remember(values);
    Node max = fused_node("MaxAndIndex", {x}, p.output(values));
    max.outputs.push_back(p.output(places));
    max.attributes["axis"] = axis;
    max.attributes["keepdims"] = keeps;
    return p.replace(std::move(max), true);
  }
  return false;
}

}  // namespace gpuplan::onnx_import
