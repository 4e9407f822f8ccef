// Operators that join tensors, cut them and look them up.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/importers/onnx/contents.h"
#include "tools/importers/onnx/infer.h"

namespace gpuplan::onnx_import {
namespace {

// --- joining and cutting --------------------------------------------------------------------------------------------

// Runs along an axis: of a shape, how many there are before it, and how many elements are behind it.
struct Runs {
  std::size_t before = 1, size = 1, behind = 1;
};
Runs runs_of(const Extents& shape, std::size_t axis) {
  Runs r;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto n = static_cast<std::size_t>(shape[i].at[0]);
    (i < axis ? r.before : i == axis ? r.size : r.behind) *= n;
  }
  return r;
}

// The elements at these positions of an axis.
std::optional<Content> pick_along(const Value& v, std::size_t axis, const std::vector<std::size_t>& positions) {
  if (!v.content || !is_small(v.shape)) return std::nullopt;
  const Runs r = runs_of(v.shape, axis);
  if (r.before * r.behind * positions.size() > kMaxContent) return std::nullopt;
  std::vector<std::size_t> places;
  if (positions.empty()) return pick(v.content, places);
  for (std::size_t b = 0; b < r.before; ++b)
    for (const std::size_t p : positions)
      for (std::size_t i = 0; i < r.behind; ++i) places.push_back((b * r.size + p) * r.behind + i);
  return pick(v.content, places);
}

void infer_concat(Inference& n) {
  Extents out = n.shape(0);
  const std::size_t axis = n.axis(n.integer("axis", 0), out.size());
  std::vector<const Value*> parts = {&n.in(0)};
  for (std::size_t i = 1; i < n.inputs(); ++i) {
    const Extents& x = n.shape(i);
    if (x.size() != out.size()) n.fail("joins " + to_string(out) + " and " + to_string(x));
    for (std::size_t d = 0; d < x.size(); ++d) {
      if (d == axis)
        out[d] = out[d] + x[d];
      else if (!(x[d] == out[d]))
        out[d] = n.same(out[d], x[d]);
    }
    parts.push_back(&n.in(i));
  }
  std::optional<Content> content;
  const auto known = [](const Value* v) { return v->content && is_small(v->shape); };
  if (is_small(out) && std::all_of(parts.begin(), parts.end(), known)) {
    content.emplace();
    content->real = parts.front()->content->real;
    const std::size_t before = runs_of(out, axis).before;
    for (std::size_t b = 0; b < before; ++b)
      for (const Value* v : parts) {
        if (v->content->real != content->real) n.fail("joins integers and reals");
        const std::size_t run = v->content->size() / std::max<std::size_t>(before, 1);
        for (std::size_t i = b * run; i < (b + 1) * run; ++i)
          content->real ? content->reals.push_back(v->content->reals[i])
                        : content->integers.push_back(v->content->integers[i]);
      }
  }
  n.out(0, std::move(out), n.in(0).type, std::move(content));
}

void infer_split(Inference& n) {
  const Extents& x = n.shape();
  const std::size_t axis = n.axis(n.integer("axis", 0), x.size());
  std::vector<std::int64_t> sizes = n.numbers("split", 1);
  const auto count = static_cast<std::int64_t>(n.outputs());
  if (count == 0) n.fail("it has no result");
  if (sizes.empty()) {
    if (!x[axis].fixed()) n.fail("splits the batch");
    const std::int64_t size = ceil_div(x[axis].at[0], count);
    for (std::int64_t i = 0; i < count; ++i) sizes.push_back(std::min(size, x[axis].at[0] - i * size));
  }
  if (sizes.size() != n.outputs())
    n.fail(std::to_string(sizes.size()) + " sizes for " + std::to_string(count) + " parts");
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) n.fail("a part of size " + std::to_string(sizes[i]));
    Extents part = x;
    part[axis] = sizes[i];
    std::optional<Content> content;
    if (n.in(0).content && checked_add(at, sizes[i]) <= x[axis].at[0]) {
      std::vector<std::size_t> positions(static_cast<std::size_t>(sizes[i]));
      std::iota(positions.begin(), positions.end(), static_cast<std::size_t>(at));
      content = pick_along(n.in(0), axis, positions);
    }
    at = checked_add(at, sizes[i]);
    n.out(i, std::move(part), n.in(0).type, std::move(content));
  }
  if (!(x[axis] == Extent(at)))
    n.fail("its parts come to " + std::to_string(at) + " of " + to_string(x[axis]) + " positions");
}

std::int64_t clamped(std::int64_t at, std::int64_t size, std::int64_t low, std::int64_t high) {
  return std::clamp(at < 0 && at >= -size ? at + size : at < -size ? low : at, low, high);
}

// How many positions of `size` are from `start` to before `end`, in steps.
std::int64_t sliced(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step > 0) {
    const std::int64_t from = clamped(start, size, 0, size);
    return std::max<std::int64_t>(0, ceil_div(clamped(end, size, 0, size) - from, step));
  }
  const std::int64_t from = clamped(start, size, -1, size - 1);
  return std::max<std::int64_t>(0, ceil_div(from - clamped(end, size, -1, size - 1), -step));
}

void infer_slice(Inference& n) {
  Extents out = n.shape();
  const auto list = [&](std::string_view name, std::size_t input) -> Extents {
    if (n.has_attribute(name)) {
      const std::vector<std::int64_t> given = n.integers(name);
      return Extents(given.begin(), given.end());
    }
    return n.has(input) ? n.content(input, "its " + std::string(name)) : Extents();
  };
  const Extents starts = list("starts", 1);
  const Extents ends = list("ends", 2);
  Extents axes = list("axes", 3);
  Extents steps = list("steps", 4);
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.emplace_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    n.fail("its starts, ends, axes and steps are not as many");
  if (starts.size() > out.size())
    n.fail(std::to_string(starts.size()) + " axes of a tensor of " + std::to_string(out.size()) + " dimensions");
  std::vector<char> cut(out.size(), 0);
  Value current = n.in(0);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = n.axis(axes[i].at[0], out.size());
    if (cut[axis]++ != 0) n.fail("an axis is named twice");
    const std::int64_t step = steps[i].at[0];
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) n.fail("a step of " + std::to_string(step));
    const Extent size = out[axis];
    out[axis] = Extent(sliced(size.at[0], starts[i].at[0], ends[i].at[0], step),
                       sliced(size.at[1], starts[i].at[1], ends[i].at[1], step));
    if (!current.content || !is_small(current.shape) || !out[axis].fixed()) {
      current.content.reset();
      continue;
    }
    std::vector<std::size_t> positions;
    const std::int64_t from = step > 0 ? clamped(starts[i].at[0], size.at[0], 0, size.at[0])
                                       : clamped(starts[i].at[0], size.at[0], -1, size.at[0] - 1);
    for (std::int64_t k = 0; k < out[axis].at[0]; ++k) positions.push_back(static_cast<std::size_t>(from + k * step));
    current.content = pick_along(current, axis, positions);
    current.shape = out;
  }
  n.out(0, std::move(out), n.in(0).type, std::move(current.content));
}

// --- looking up -----------------------------------------------------------------------------------------------------

void infer_gather(Inference& n) {
  const Value& x = n.in(0);
  const Value& index = n.in(1);
  const std::size_t axis = n.axis(n.integer("axis", 0), x.shape.size());
  if (takes_all_in_order(n.graph(), x, index)) return n.out(0, n.for_any_batch(x.shape, index.shape), x.type);
  Extents out(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.end(), index.shape.begin(), index.shape.end());
  out.insert(out.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.shape.end());
  std::optional<Content> content;
  if (x.content && index.content && !index.content->real) {
    std::vector<std::size_t> positions;
    const std::int64_t size = x.shape[axis].at[0];
    for (const Extent& e : index.content->integers) {
      const std::int64_t at = e.at[0] < 0 ? e.at[0] + size : e.at[0];
      if (!e.fixed() || at < 0 || at >= size)
        n.fail("position " + to_string(e) + " of a dimension of size " + to_string(x.shape[axis]));
      positions.push_back(static_cast<std::size_t>(at));
    }
    content = pick_along(x, axis, positions);
  }
  n.out(0, std::move(out), x.type, std::move(content));
}

void infer_gather_elements(Inference& n) { n.out(0, n.shape(1), n.in(0).type); }

void infer_gather_nd(Inference& n) {
  const Extents& x = n.shape(0);
  const Extents& index = n.shape(1);
  const std::int64_t batch = n.integer("batch_dims", 0);
  if (index.empty() || !index.back().fixed()) n.fail("an index of " + to_string(index));
  const std::int64_t last = index.back().at[0];
  const auto rank = static_cast<std::int64_t>(x.size());
  if (batch < 0 || batch > rank || last < 1 || last > rank - batch)
    n.fail("an index of " + std::to_string(last) + " dimensions into " + to_string(x));
  Extents out(index.begin(), index.end() - 1);
  out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(batch + last), x.end());
  n.out(0, std::move(out), n.in(0).type);
}

void infer_tile(Inference& n) {
  Extents out = n.shape();
  const Extents& times = n.content(1, "its repeats");
  if (times.size() != out.size()) n.fail(std::to_string(times.size()) + " repeats of " + to_string(out));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] * times[i];
  std::optional<Content> content;
  if (out == n.shape()) content = n.in(0).content;
  n.out(0, std::move(out), n.in(0).type, std::move(content));
}

void infer_pad(Inference& n) {
  Extents out = n.shape();
  std::vector<std::int64_t> pads = n.numbers("pads", 1);
  std::vector<std::int64_t> axes = n.has(3) ? n.numbers("axes", 3) : std::vector<std::int64_t>();
  if (axes.empty())
    for (std::size_t i = 0; i < out.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (pads.size() != 2 * axes.size()) n.fail(std::to_string(pads.size()) + " paddings for " + to_string(out));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Extent& e = out[n.axis(axes[i], out.size())];
    e = e + Extent(pads[i]) + Extent(pads[axes.size() + i]);
  }
  n.out(std::move(out));
}

// Resize [x, roi, scales, sizes] since opset 11, [x, scales] before; Upsample [x, scales], or an attribute.
void infer_resize(Inference& n) {
  Extents out = n.shape();
  const bool upsample = n.node().op == "Upsample";
  const std::size_t at = upsample || n.inputs() == 2 ? 1 : 2;
  if (n.has(3)) {
    const Extents& sizes = n.content(3, "its sizes");
    if (sizes.size() != out.size()) n.fail(std::to_string(sizes.size()) + " sizes for " + to_string(out));
    return n.out(n.for_any_batch(out, sizes));
  }
  std::vector<Real> scales;
  if (n.has_attribute("scales")) {
    for (const double s : n.reals("scales")) scales.push_back({s, s});
  } else {
    const std::optional<Content>& c = n.in(at).content;
    if (!c || !c->real) n.fail("its scales are not known without running the model");
    scales = c->reals;
  }
  if (scales.size() != out.size()) n.fail(std::to_string(scales.size()) + " scales for " + to_string(out));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto scaled = [&](std::size_t k) {
      const double size = std::floor(static_cast<double>(out[i].at[k]) * scales[i][k]);
      if (!(size >= 0 && size < 1e15)) n.fail("a scale of " + std::to_string(scales[i][k]));
      return static_cast<std::int64_t>(size);
    };
    out[i] = Extent(scaled(0), scaled(1));
  }
  n.out(std::move(out));
}

// Known classes as the two values: torch.onnx's older exporter writes the repeats of repeat_interleave so.
std::optional<Content> one_hot(const Value& index, const Value& values, const Extents& shape, std::size_t axis) {
  if (!index.content || index.content->real || !values.content || values.content->size() != 2 || !is_small(shape) ||
      !is_small(index.shape))
    return std::nullopt;
  const Runs r = runs_of(shape, axis);
  std::vector<std::size_t> places;
  for (std::size_t b = 0; b < r.before; ++b)
    for (std::size_t c = 0; c < r.size; ++c)
      for (std::size_t i = 0; i < r.behind; ++i) {
        const Extent& at = index.content->integers[b * r.behind + i];
        const auto classes = static_cast<std::int64_t>(r.size);
        if (!at.fixed()) return std::nullopt;
        places.push_back((at.at[0] < 0 && at.at[0] >= -classes ? at.at[0] + classes : at.at[0]) ==
                         static_cast<std::int64_t>(c));
      }
  return pick(values.content, places);
}

// The new dimension is as long as there are classes.
void infer_one_hot(Inference& n) {
  const Extents& depth = n.content(1, "its classes");
  if (depth.size() != 1 || !depth[0].fixed()) n.fail("its number of classes is not a single number");
  Extents shape = n.shape();
  const std::size_t axis = n.axis(n.integer("axis", -1), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth[0]);
  std::optional<Content> content = one_hot(n.in(0), n.in(2), shape, axis);
  n.out(0, std::move(shape), n.in(2).type, std::move(content));
}

}  // namespace

std::vector<NamedRule> movement_rules() {
  return {{"Concat", infer_concat},      {"Split", infer_split},    {"Slice", infer_slice},
          {"Gather", infer_gather},      {"OneHot", infer_one_hot}, {"GatherElements", infer_gather_elements},
          {"GatherND", infer_gather_nd}, {"Tile", infer_tile},      {"Pad", infer_pad},
          {"Resize", infer_resize},      {"Upsample", infer_resize}};
}

}  // namespace gpuplan::onnx_import
