// Activations and attention.
#include <array>
#include <cmath>

#include "tools/importers/onnx/pattern.h"

namespace gpuplan::onnx_import {
namespace {

// The product of `gate` with x and one half, in any order: its value, or kNone.
int half_product(Pattern& p, int gate, int x) {
  const int first = p.to(gate, "Mul");
  if (first == kNone) return kNone;
  const int other = p.beside(first, gate);
  if (other == x || p.is_number(other, 0.5)) {
    const int second = p.to(p.output(first), "Mul");
    if (second == kNone) return kNone;
    const int last = p.beside(second, p.output(first));
    return other == x ? (p.is_number(last, 0.5) ? p.output(second) : kNone) : (last == x ? p.output(second) : kNone);
  }
  const int half = p.from(other, "Mul");
  return half != kNone && p.beside_number(half, 0.5) == x ? p.output(first) : kNone;
}

// x^3 as a power or a product.
int cubed(Pattern& p, int value) {
  if (const int pow = p.from(value, "Pow"); pow != kNone)
    return p.is_number(p.input(pow, 1), 3) ? p.input(pow, 0) : kNone;
  const int outer = p.from(value, "Mul");
  if (outer == kNone) return kNone;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const int square = p.from(p.input(outer, side), "Mul");
    if (square != kNone && p.input(square, 0) == p.input(square, 1) && p.input(square, 0) == p.input(outer, 1 - side))
      return p.input(outer, 1 - side);
  }
  return kNone;
}

// A product with a constant; kNone where it is not one.
int scaled_by_constant(Pattern& p, int value) {
  const int mul = p.from(value, "Mul");
  if (mul == kNone) return kNone;
  const bool right = p.value(p.input(mul, 1)).kind == ValueKind::constant && p.value(p.input(mul, 1)).shape.size() <= 1;
  const bool left = p.value(p.input(mul, 0)).kind == ValueKind::constant && p.value(p.input(mul, 0)).shape.size() <= 1;
  return right ? p.input(mul, 0) : left ? p.input(mul, 1) : kNone;
}

// True where the node swaps the last two dimensions.
bool swaps_last(Pattern& p, int transpose) {
  const std::vector<std::int64_t> order = p.view(transpose).integers("perm");
  const auto rank = static_cast<std::int64_t>(order.size());
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t expected = i == rank - 2 ? rank - 1 : i == rank - 1 ? rank - 2 : i;
    if (order[static_cast<std::size_t>(i)] != expected) return false;
  }
  return rank >= 3;
}

// The transposition of keys, which opset 18's exporter does on three dimensions: a reshape on each side.
int before_transpose(Pattern& p, int value) {
  if (const int plain = p.from(value, "Transpose"); plain != kNone)
    return swaps_last(p, plain) ? p.input(plain, 0) : kNone;
  const int joined = p.from(value, "Reshape");
  if (joined == kNone) return kNone;
  const int turned = p.from(p.input(joined, 0), "Transpose");
  if (turned == kNone || !swaps_last(p, turned)) return kNone;
  const int split = p.from(p.input(turned, 0), "Reshape");
  if (split == kNone) return kNone;
  Extents expected = p.value(p.input(split, 0)).shape;
  if (expected.size() < 3) return kNone;
  std::swap(expected[expected.size() - 1], expected[expected.size() - 2]);
  return expected == p.value(value).shape ? p.input(split, 0) : kNone;
}

// The weights of attention behind the softmax: what guards rows without a key, which only the newer exporter writes,
// and dropout.
int softmax_of(Pattern& p, int weights, bool& is_guarded) {
  if (const int dropout = p.from(weights, "Dropout"); dropout != kNone) weights = p.input(dropout, 0);
  if (const int guard = p.from(weights, "Where"); guard != kNone) {
    const int check = p.from(p.input(guard, 0), "IsNaN");
    if (check == kNone || !p.is_number(p.input(guard, 1), 0) || p.input(check, 0) != p.input(guard, 2)) return kNone;
    weights = p.input(guard, 2);
    is_guarded = true;
  }
  return p.from(weights, "Softmax");
}

}  // namespace

// x / 2 (1 + erf(x / sqrt(2))).
bool fuse_gelu(Pattern& p, int erf) {
  if (p.node(erf).op != "Erf") return false;
  p.remember(erf);
  int x = kNone;
  if (const int div = p.from(p.input(erf, 0), "Div"); div != kNone && p.is_number(p.input(div, 1), std::sqrt(2.0)))
    x = p.input(div, 0);
  else if (const int mul = p.from(p.input(erf, 0), "Mul"); mul != kNone)
    x = p.beside_number(mul, std::sqrt(0.5));
  const int sum = p.to(p.output(erf), "Add");
  if (x == kNone || sum == kNone || p.beside_number(sum, 1) != p.output(erf)) return false;
  const int result = half_product(p, p.output(sum), x);
  return result != kNone && p.replace(fused_node("Gelu", {x}, result));
}

// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): one kernel where the exporter wrote x x x for F.gelu, Hugging
// Face's NewGELUActivation where there is a power.
bool fuse_tanh_gelu(Pattern& p, int tanh) {
  if (p.node(tanh).op != "Tanh") return false;
  p.remember(tanh);
  const int outer = p.from(p.input(tanh, 0), "Mul");
  const int inner = outer == kNone ? kNone : p.beside_number(outer, 0.7978845608);
  const int add = p.from(inner, "Add");
  if (add == kNone) return false;
  int x = kNone;
  bool power = false;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const int cube = p.from(p.input(add, side), "Mul");
    const int of = cube == kNone ? kNone : p.beside_number(cube, 0.044715);
    if (of == kNone || p.value(of).producer == kNone) continue;
    power = p.node(p.value(of).producer).op == "Pow";
    if (cubed(p, of) == p.input(add, 1 - side)) x = p.input(add, 1 - side);
  }
  const int sum = p.to(p.output(tanh), "Add");
  if (x == kNone || sum == kNone || p.beside_number(sum, 1) != p.output(tanh)) return false;
  const int result = half_product(p, p.output(sum), x);
  if (result == kNone) return false;
  Node gelu = fused_node(power ? "NewGELU" : "Gelu", {x}, result);
  gelu.attributes["approximate"] = std::string("tanh");
  return p.replace(std::move(gelu));
}

// x sigmoid(x), and x hardsigmoid(x).
bool fuse_gate(Pattern& p, int mul) {
  if (p.node(mul).op != "Mul") return false;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    for (const auto& [gate, fused] : {std::pair{"Sigmoid", "SiLU"}, std::pair{"HardSigmoid", "HardSwish"}}) {
      p.forget();
      p.remember(mul);
      const int g = p.from(p.input(mul, side), gate);
      if (g == kNone || p.input(g, 0) != p.input(mul, 1 - side)) continue;
      constexpr double kAlpha = 0.2;  // that HardSigmoid has where it is not given
      if (std::string_view(fused) == "HardSwish" && std::abs(p.view(g).real("alpha", kAlpha) - 1.0 / 6) > 1e-4)
        continue;
      return p.replace(fused_node(fused, {p.input(g, 0)}, p.output(mul)));
    }
  }
  return false;
}

// x clip(x + 3, 0, 6) / 6.
bool fuse_hard_swish(Pattern& p, int clip) {
  if (p.node(clip).op != "Clip" || !p.is_number(p.input(clip, 1), 0) || !p.is_number(p.input(clip, 2), 6)) return false;
  p.remember(clip);
  const int add = p.from(p.input(clip, 0), "Add");
  const int x = add == kNone ? kNone : p.beside_number(add, 3);
  const int mul = p.to(p.output(clip), "Mul");
  if (x == kNone || mul == kNone || p.beside(mul, p.output(clip)) != x) return false;
  const int div = p.to(p.output(mul), "Div");
  if (div == kNone || !p.is_number(p.input(div, 1), 6)) return false;
  return p.replace(fused_node("HardSwish", {x}, p.output(div)));
}

// torchvision's stochastic_depth: x times noise that is 0 or 1 / (1 - p), a number for each sample or for the batch.
bool fuse_stochastic_depth(Pattern& p, int mul) {
  if (p.node(mul).op != "Mul") return false;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    p.forget();
    p.remember(mul);
    const int div = p.from(p.input(mul, side), "Div");
    const int cast = div == kNone ? kNone : p.from(p.input(div, 0), "Cast");
    const int less = cast == kNone ? kNone : p.from(p.input(cast, 0), "Less");
    const int noise = less == kNone ? kNone : p.from(p.input(less, 0), "RandomUniformLike");
    if (noise == kNone) continue;
    const std::optional<double> survives = p.number(p.input(less, 1));
    if (!survives || !p.is_number(p.input(div, 1), *survives)) continue;
    Node depth = fused_node("StochasticDepth", {p.input(mul, 1 - side)}, p.output(mul));
    const Extents& rows = p.value(p.output(noise)).shape;
    depth.attributes["p"] = std::round((1 - *survives) * 1e6) / 1e6;
    depth.attributes["mode"] = std::string(!rows.empty() && !rows[0].fixed() ? "row" : "batch");
    return p.replace(std::move(depth));
  }
  return false;
}

// F.scaled_dot_product_attention, which torch.onnx writes with both q and k scaled by the root of the scale, or neither
// where the scale is 1. Attention that Python code wrote out scales once; it stays the operators that it is in PyTorch.
bool fuse_attention(Pattern& p, int product) {
  if (p.node(product).op != "MatMul") return false;
  p.remember(product);
  bool is_guarded = false;
  const int softmax = softmax_of(p, p.input(product, 0), is_guarded);
  if (softmax == kNone) return false;
  int scores = p.input(softmax, 0);
  int mask = kNone;
  if (const int add = p.from(scores, "Add"); add != kNone) {
    const bool first =
        p.value(p.input(add, 0)).producer != kNone && p.node(p.value(p.input(add, 0)).producer).op == "MatMul";
    scores = p.input(add, first ? 0 : 1);
    mask = p.input(add, first ? 1 : 0);
  }
  const int inner = p.from(scores, "MatMul");
  if (inner == kNone) return false;
  int q = scaled_by_constant(p, p.input(inner, 0));
  int turned = scaled_by_constant(p, p.input(inner, 1));
  if (is_guarded && q == kNone && turned == kNone) {
    q = p.input(inner, 0);
    turned = p.input(inner, 1);
  }
  if (q == kNone || turned == kNone) return false;
  const int k = before_transpose(p, turned);
  const int v = p.input(product, 1);
  if (k == kNone || p.value(q).shape.size() != 4 || p.value(k).shape.size() != 4 || p.value(v).shape.size() != 4)
    return false;
  return p.replace(fused_node("ScaledDotProductAttention", {q, k, v, mask}, p.output(product)));
}

}  // namespace gpuplan::onnx_import
