// Operators that keep the elements and change the shape or the order.
#include <algorithm>

#include "tools/importers/onnx/contents.h"
#include "tools/importers/onnx/infer.h"

namespace gpuplan::onnx_import {
namespace {

// --- the same elements under another shape --------------------------------------------------------------------------

// `sizes` with its -1 such that it has as many elements as `x`.
Extents resolved(Inference& n, const Extents& x, Extents sizes) {
  std::size_t inferred = sizes.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Extent(0) && n.integer("allowzero", 0) == 0) {
      if (i >= x.size()) n.fail("size 0 of a dimension that its input does not have");
      sizes[i] = x[i];
    }
    if (!(sizes[i] == Extent(-1))) continue;
    if (inferred < sizes.size()) n.fail("two sizes are -1");
    inferred = i;
  }
  if (inferred == sizes.size()) return sizes;
  Extents known = sizes;
  known[inferred] = 1;
  // A batch written down elsewhere than at the -1: the rest of the sizes tells.
  if (n.graph().fixed_batch != 0) {
    const Extent at_export = n.graph().fixed_batch;
    Extents concrete = x;
    for (Extent& e : concrete)
      if (!e.fixed() && e.at[0] % kBatches[0] == 0) e = Extent(e.at[0] / kBatches[0]) * at_export;
    const std::int64_t whole = product(concrete).at[0];
    const std::int64_t part = product(known).at[0];
    if (part > 0 && product(known).fixed() && product(concrete).fixed() && whole % part == 0) {
      sizes[inferred] = whole / part;
      return n.for_any_batch(x, sizes);
    }
  }
  const Extent rest = product(known);
  const Extent all = product(x);
  if (rest.at[0] == 0 || rest.at[1] == 0 || all.at[0] % rest.at[0] != 0 || all.at[1] % rest.at[1] != 0)
    n.fail("the sizes " + to_string(sizes) + " do not fit its input " + to_string(x));
  sizes[inferred] = Extent(all.at[0] / rest.at[0], all.at[1] / rest.at[1]);
  return sizes;
}

void infer_reshape(Inference& n) {
  n.view();
  Extents sizes;
  if (n.has_attribute("shape"))
    for (const std::int64_t i : n.integers("shape")) sizes.emplace_back(i);
  else
    sizes = n.content(1, "its sizes");
  if (sizes.size() > kMaxRank) n.fail("its result has more than 8 dimensions");
  const Extents& x = n.shape();
  Extents shape = n.for_any_batch(x, resolved(n, x, std::move(sizes)));
  if (!(product(shape) == product(x)))
    n.fail("the sizes " + to_string(shape) + " do not fit its input " + to_string(x) + " (N is the batch)");
  n.out(0, std::move(shape), n.in(0).type, n.in(0).content);
}

void infer_flatten(Inference& n) {
  const Extents& x = n.shape();
  const std::int64_t axis = n.integer("axis", 1);
  const std::size_t at = axis == static_cast<std::int64_t>(x.size()) ? x.size() : n.axis(axis, x.size());
  n.out(0, {product(x, 0, at), product(x, at, x.size())}, n.in(0).type, n.in(0).content);
}

std::vector<std::size_t> axes_of(const Inference& n, std::size_t rank) {
  std::vector<std::size_t> axes;
  for (const std::int64_t a : n.numbers("axes", 1)) axes.push_back(n.axis(a, rank));
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) n.fail("an axis is named twice");
  return axes;
}

void infer_unsqueeze(Inference& n) {
  n.view();
  const Extents& x = n.shape();
  const std::size_t rank = x.size() + n.numbers("axes", 1).size();
  if (rank > kMaxRank) n.fail("its result has more than 8 dimensions");
  const std::vector<std::size_t> axes = axes_of(n, rank);
  Extents out;
  for (std::size_t i = 0, from = 0; i < rank; ++i)
    out.push_back(std::binary_search(axes.begin(), axes.end(), i) ? Extent(1) : x[from++]);
  n.out(0, std::move(out), n.in(0).type, n.in(0).content);
}

void infer_squeeze(Inference& n) {
  n.view();
  const Extents& x = n.shape();
  const bool all = n.numbers("axes", 1).empty();
  const std::vector<std::size_t> axes = axes_of(n, x.size());
  Extents out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool named = std::binary_search(axes.begin(), axes.end(), i);
    if (named && !(x[i] == Extent(1))) n.fail("dimension " + std::to_string(i) + " of " + to_string(x) + " is not 1");
    if (!named && !(all && x[i] == Extent(1))) out.push_back(x[i]);
  }
  n.out(0, std::move(out), n.in(0).type, n.in(0).content);
}

// --- another order --------------------------------------------------------------------------------------------------

// Of onnxruntime's operators that transpose an operand, whose dimensions are known here only (decompose.cpp).
constexpr std::string_view kSwapsLast = "swaps_last";

}  // namespace

std::vector<std::int64_t> transposed_order(const NodeView& n) {
  std::vector<std::int64_t> order = n.integers("perm");
  if (!order.empty()) return order;
  for (std::size_t i = 0; i < n.shape().size(); ++i) order.push_back(static_cast<std::int64_t>(i));
  if (n.integer(kSwapsLast, 0) == 0)
    std::reverse(order.begin(), order.end());
  else if (order.size() < 2)
    n.fail("a transposed tensor of " + std::to_string(order.size()) + " dimensions");
  else
    std::swap(order[order.size() - 2], order.back());
  return order;
}

namespace {

void infer_transpose(Inference& n) {
  n.view();
  const Extents& x = n.shape();
  const std::vector<std::int64_t> order = transposed_order(n);
  if (order.size() != x.size())
    n.fail("an order of " + std::to_string(order.size()) + " dimensions for " + to_string(x));
  std::vector<char> seen(x.size(), 0);
  std::vector<std::size_t> source;  // of each dimension
  Extents out;
  for (const std::int64_t i : order) {
    source.push_back(n.axis(i, x.size()));
    if (seen[source.back()]++ != 0) n.fail("dimension " + std::to_string(i) + " twice");
    out.push_back(x[source.back()]);
  }
  std::optional<Content> content;
  if (n.in(0).content && is_small(x)) {
    const std::vector<std::size_t> from = strides_of(x);
    const std::vector<std::size_t> to = strides_of(out);
    std::vector<std::size_t> places(n.in(0).content->size(), 0);
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::size_t d = 0; d < out.size(); ++d)
        places[i] += i / to[d] % static_cast<std::size_t>(out[d].at[0]) * from[source[d]];
    content = pick(n.in(0).content, places);
  }
  n.out(0, std::move(out), n.in(0).type, std::move(content));
}

// Depth to space and back: the images' sides times or by the block, the channels by or times its square.
void infer_depth_to_space(Inference& n) {
  const Extents& x = n.shape();
  const std::int64_t block = n.integer("blocksize", 0);
  if (x.size() != 4 || block < 1 || block > 1 << 15 || !x[1].fixed() || x[1].at[0] % (block * block) != 0)
    n.fail("blocks of " + std::to_string(block) + " of " + to_string(x));
  n.out({x[0], x[1].at[0] / (block * block), x[2] * Extent(block), x[3] * Extent(block)});
}

void infer_space_to_depth(Inference& n) {
  const Extents& x = n.shape();
  const std::int64_t block = n.integer("blocksize", 0);
  if (x.size() != 4 || block < 1 || block > 1 << 15 || !x[2].fixed() || !x[3].fixed() || x[2].at[0] % block != 0 ||
      x[3].at[0] % block != 0)
    n.fail("blocks of " + std::to_string(block) + " of " + to_string(x));
  n.out({x[0], x[1] * Extent(block * block), x[2].at[0] / block, x[3].at[0] / block});
}

}  // namespace

std::vector<NamedRule> view_rules() {
  return {{"Reshape", infer_reshape},
          {"Flatten", infer_flatten},
          {"Unsqueeze", infer_unsqueeze},
          {"Squeeze", infer_squeeze},
          {"Transpose", infer_transpose},
          {"DepthToSpace", infer_depth_to_space},
          {"SpaceToDepth", infer_space_to_depth}};
}

}  // namespace gpuplan::onnx_import
