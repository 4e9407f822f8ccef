// Operators that fold dimensions away.
#include <algorithm>

#include "tools/importers/onnx/infer.h"

namespace gpuplan::onnx_import {
namespace {

// Axes are an attribute, and an input since opset 13 (ReduceSum) or 18 (the others).
Extents reduced(const Inference& n) {
  Extents out = n.shape();
  std::vector<char> gone(out.size(), 0);
  const std::vector<std::int64_t> axes = n.numbers("axes", 1);
  for (const std::int64_t a : axes) gone[n.axis(a, out.size())] = 1;
  if (axes.empty() && n.integer("noop_with_empty_axes", 0) == 0) std::fill(gone.begin(), gone.end(), 1);
  Extents result;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (gone[i] == 0)
      result.push_back(out[i]);
    else if (n.integer("keepdims", 1) != 0)
      result.emplace_back(1);
  }
  return result;
}

void infer_reduce(Inference& n) { n.out(reduced(n)); }

template <std::int64_t (*combine)(std::int64_t, std::int64_t)>
void infer_reduce_integers(Inference& n) {
  Extents shape = reduced(n);
  const std::optional<Content>& c = n.in(0).content;
  if (!c || c->real || c->integers.empty() || !(product(shape) == Extent(1))) return n.out(std::move(shape));
  Extent all = c->integers.front();
  for (std::size_t i = 1; i < c->integers.size(); ++i) all = each(all, c->integers[i], combine);
  Content out;
  out.integers = {all};
  n.out(0, std::move(shape), n.in(0).type, std::move(out));
}

std::int64_t larger(std::int64_t a, std::int64_t b) { return std::max(a, b); }
std::int64_t smaller(std::int64_t a, std::int64_t b) { return std::min(a, b); }

void infer_arg(Inference& n) {
  Extents out = n.shape();
  const std::size_t axis = n.axis(n.integer("axis", 0), out.size());
  if (n.integer("keepdims", 1) != 0)
    out[axis] = 1;
  else
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
  n.out(0, std::move(out), DType::int64);
}

void infer_top_k(Inference& n) {
  Extents out = n.shape();
  const Extents& k = n.content(1, "how many it takes");
  if (k.size() != 1) n.fail("how many it takes is not one number");
  out[n.axis(n.integer("axis", -1), out.size())] = k.front();
  n.out(0, out, n.in(0).type);
  n.out(1, out, DType::int64);
}

}  // namespace

std::vector<NamedRule> reduction_rules() {
  return {{"ReduceMean", infer_reduce},
          {"ReduceL1", infer_reduce},
          {"ReduceL2", infer_reduce},
          {"ReduceLogSumExp", infer_reduce},
          {"ReduceSumSquare", infer_reduce},
          {"ReduceSum", infer_reduce_integers<checked_add>},
          {"ReduceProd", infer_reduce_integers<checked_mul>},
          {"ReduceMax", infer_reduce_integers<larger>},
          {"ReduceMin", infer_reduce_integers<smaller>},
          {"ArgMax", infer_arg},
          {"ArgMin", infer_arg},
          {"TopK", infer_top_k}};
}

}  // namespace gpuplan::onnx_import
