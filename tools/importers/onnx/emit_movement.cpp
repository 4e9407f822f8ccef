// Views, copies and look-ups.
#include <algorithm>

#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {
namespace {

// Many exporters write a view where nothing changes.
bool same_shape(const Emission& e) { return e.result().shape == e.shape(); }

void emit_reshape(Emission& e) {
  if (same_shape(e)) return e.pass();
  if (e.node().op == "Flatten" && e.integer("axis", 1) == 1) return e.layer("Flatten()");
  e.layer("Reshape(" + e.sizes(e.result().shape) + ")");
}

void emit_transpose(Emission& e) {
  const std::size_t rank = e.shape().size();
  std::vector<std::int64_t> order = transposed_order(e);
  std::vector<std::int64_t> moved;
  for (std::size_t i = 0; i < rank; ++i) {
    order[i] = static_cast<std::int64_t>(e.axis(order[i], rank));
    if (order[i] != static_cast<std::int64_t>(i)) moved.push_back(static_cast<std::int64_t>(i));
  }
  if (moved.empty()) return e.pass();
  if (moved.size() == 2)
    return e.layer("Transpose(" + std::to_string(moved[0]) + ", " + std::to_string(moved[1]) + ")");
  const std::string list = list_text(order);
  e.layer("Permute(" + list.substr(1, list.size() - 2) + ")");
}

void emit_unsqueeze(Emission& e) {
  std::vector<std::int64_t> axes;
  for (const std::int64_t a : e.numbers("axes", 1))
    axes.push_back(static_cast<std::int64_t>(e.axis(a, e.result().shape.size())));
  std::sort(axes.begin(), axes.end());
  std::string name = e.input(0);
  for (const std::int64_t a : axes) name = e.writer().add(e.wish(), "Unsqueeze(" + std::to_string(a) + ")", {name});
  e.give(name);
}

void emit_squeeze(Emission& e) {
  std::vector<std::int64_t> axes;
  for (const std::int64_t a : e.numbers("axes", 1))
    axes.push_back(static_cast<std::int64_t>(e.axis(a, e.shape().size())));
  if (axes.empty())
    for (std::size_t i = 0; i < e.shape().size(); ++i)
      if (e.shape()[i] == Extent(1)) axes.push_back(static_cast<std::int64_t>(i));
  std::sort(axes.rbegin(), axes.rend());
  std::string name = e.input(0);
  for (const std::int64_t a : axes) name = e.writer().add(e.wish(), "Squeeze(" + std::to_string(a) + ")", {name});
  e.give(name);
}

// The weight [1, 1, D] that a Concat puts before the tokens of a batch, expanded or written for a batch of 1.
int class_token(const NodeView& view) {
  const Graph& graph = view.graph();
  const Node& concat = view.node();
  if (concat.inputs.size() != 2 || concat.inputs[0] == kNone || concat.outputs.empty()) return kNone;
  const std::int64_t axis = view.integer("axis", 0);
  if ((axis != 1 && axis != -2) || graph.value(concat.outputs.front()).shape.size() != 3) return kNone;
  int v = concat.inputs[0];
  const int producer = graph.value(v).producer;
  if (producer != kNone && graph.nodes[static_cast<std::size_t>(producer)].op == "Expand")
    v = graph.nodes[static_cast<std::size_t>(producer)].inputs.front();
  const Value& token = graph.value(v);
  if (token.users.size() != 1 || graph.value(concat.inputs[0]).users.size() != 1) return kNone;  // read elsewhere, too
  const bool one = token.shape.size() == 3 && token.shape[0] == Extent(1) && token.shape[1] == Extent(1);
  return one && token.kind == ValueKind::weight && token.initializer == v ? v : kNone;
}

// A weight that is repeated for the batch and only then joined to tokens: emit_concat's ClassToken.
bool is_class_token(const Emission& e) {
  const Value& y = e.result();
  if (y.users.size() != 1 || y.is_output) return false;
  const NodeView user(e.graph(), y.users.front());
  return user.node().op == "Concat" && class_token(user) != kNone;
}

void emit_expand(Emission& e) {
  const Extents& from = e.shape();
  const Extents& to = e.result().shape;
  if (from == to) return e.pass();
  if (is_class_token(e)) return;
  std::string sizes;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool is_old = i + from.size() >= to.size() && from[i + from.size() - to.size()] == to[i];
    if (!is_old && !to[i].fixed() && !(to[i] == batch_extent()))
      e.fail("repeats to " + to_string(to[i]) + ", a size that no layer supports");
    sizes += (i > 0 ? ", " : "") + (is_old ? "-1" : to[i].fixed() ? to_string(to[i]) : "_");
  }
  e.layer("Expand(" + sizes + ")");
}

// --- joining and cutting --------------------------------------------------------------------------------------------

void emit_concat(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", 0), e.result().shape.size());
  if (const int token = class_token(e); token != kNone) {
    const std::string& name = e.graph().value(token).name;
    return e.give(e.writer().add_with_weight(token, is_generated(name) ? "class_token" : name,
                                             "ClassToken(" + to_string(e.result().shape[2]) + ")", {e.input(1)}));
  }
  std::vector<std::string> from;
  for (std::size_t i = 0; i < e.inputs(); ++i) {
    const Extents& x = e.shape(i);
    if (x[axis] == Extent(0)) continue;  // a cache that is still empty
    for (std::size_t d = 0; d < x.size(); ++d)
      if (d != axis && !(x[d] == e.result().shape[d]))
        e.fail("concatenates a tensor without a batch dimension, which no layer supports");
    from.push_back(e.input(i));
  }
  if (from.size() == 1) return e.give(from.front());
  e.give(e.writer().add(e.wish(), "Cat(dim=" + std::to_string(axis) + ")", from));
}

void emit_split(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", 0), e.shape().size());
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < e.outputs(); ++i) {
    if (e.node().outputs[i] == kNone) e.fail("a part that is left out");
    sizes.push_back(e.fixed(e.result(i).shape[axis], "a part"));
  }
  if (sizes.size() == 1) return e.pass();
  const std::string name =
      e.writer().add(e.wish(), "Split(" + list_text(sizes) + ", dim=" + std::to_string(axis) + ")", {e.input(0)});
  e.writer().give_parts(e.node().outputs, name);
}

// The positions of one axis that a Slice takes, in order.
struct Taken {
  std::int64_t axis, start, end, step;
};

// Positions `start`, `start + step`, ... of `size`, `count` of them.
Taken taken(std::int64_t axis, std::int64_t start, std::int64_t step, std::int64_t size, std::int64_t count) {
  if (count == 0) return {axis, 0, 0, 1};
  if (start < 0) start += size;
  start = std::clamp<std::int64_t>(start, 0, size - 1);
  const std::int64_t last = start + (count - 1) * step;
  if (step > 0) return {axis, start, step < size - last ? last + step : size, step};
  return {axis, last, start + 1, step};
}

std::string sliced(Emission& e, std::string name, const Taken& t) {
  const std::int64_t step = t.step < 0 ? -t.step : t.step;
  name = e.writer().add(e.wish(),
                        "Slice(" + std::to_string(t.axis) + ", " + std::to_string(t.start) + ", " +
                            std::to_string(t.end) + (step == 1 ? ")" : ", " + std::to_string(step) + ")"),
                        {name});
  return t.step > 0 ? name : e.writer().add(e.wish() + "_flip", "Flip(" + std::to_string(t.axis) + ")", {name});
}

// torch has no steps backwards: Tensor.flip of a dimension is written so.
void emit_slice(Emission& e) {
  const std::vector<std::int64_t> starts = e.numbers("starts", 1);
  const std::vector<std::int64_t> steps = e.numbers("steps", 4);
  std::vector<std::int64_t> axes = e.numbers("axes", 3);
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::string name = e.input(0);
  std::vector<std::int64_t> flipped;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = e.axis(axes[i], e.shape().size());
    const Extent& size = e.shape()[axis];
    const Extent& left = e.result().shape[axis];
    const std::int64_t step = steps.empty() ? 1 : steps[i];
    const auto dimension = static_cast<std::int64_t>(axis);
    if (left == size && step < 0) flipped.push_back(dimension);
    if (left == size) continue;  // from the first to the last: of a size that may be the batch's
    const std::int64_t all = e.fixed(size, "a dimension that is cut");
    name = sliced(e, name, taken(dimension, starts[i], step, all, e.fixed(left, "what is left")));
  }
  if (!flipped.empty()) name = e.writer().add(e.wish(), "Flip(" + list_text(flipped) + ")", {name});
  e.give(name);
}

void emit_tile(Emission& e) {
  if (same_shape(e)) return e.pass();
  std::string times;
  for (const Extent& n : e.content(1, "its repeats")) {
    if (!n.fixed() && !(n == batch_extent())) e.fail("repeats " + to_string(n) + " times, which no layer supports");
    times += (times.empty() ? "" : ", ") + (n.fixed() ? to_string(n) : "_");
  }
  e.layer("Repeat(" + times + ")");
}

// --- sides and sizes -------------------------------------------------------------------------------------------------

// Sides before and after each dimension, the last dimension first, as torch's.
std::vector<std::int64_t> sides(const Emission& e) {
  const std::vector<std::int64_t> pads = e.numbers("pads", 1);
  const std::size_t rank = e.shape().size();
  std::vector<std::int64_t> axes = e.has(3) ? e.numbers("axes", 3) : std::vector<std::int64_t>();
  if (axes.empty())
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::vector<std::int64_t> all(2 * rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t place = 2 * (rank - 1 - e.axis(axes[i], rank));
    all[place] = pads[i];
    all[place + 1] = pads[axes.size() + i];
  }
  while (all.size() > 2 && all.back() == 0 && all[all.size() - 2] == 0) all.resize(all.size() - 2);
  return all;
}

void emit_pad(Emission& e) {
  if (same_shape(e)) return e.pass();
  std::vector<std::int64_t> all = sides(e);
  const std::string_view mode = e.text("mode", "constant");
  if (mode == "reflect" && e.shape().size() == 4 && all.size() <= 4) {
    all.resize(4, 0);
    return e.layer("ReflectionPad2d(" + list_text(all) + ")");
  }
  if (mode != "constant") e.fail("no layer pads " + to_string(e.shape()) + " by " + std::string(mode));
  const double value = e.number(2).value_or(e.real("value", 0));
  e.layer("Pad(" + list_text(all) + (value == 0 ? "" : ", value=" + to_text(value)) + ")");
}

// "nearest", "linear" and "cubic" of images, "linear" of sequences.
std::string interpolation_mode(const Emission& e) {
  const std::string_view mode = e.text("mode", "nearest");
  const bool is_image = e.shape().size() == 4;
  if (mode == "nearest" && is_image) return "";
  if (mode == "linear") return is_image ? "bilinear" : "linear";
  if (mode == "cubic" && is_image) return "bicubic";
  e.fail("no layer resizes " + to_string(e.shape()) + " by " + std::string(mode));
}

void emit_resize(Emission& e) {
  const Extents& to = e.result().shape;
  if ((to.size() != 3 && to.size() != 4) || !(to[0] == e.shape()[0]) || !(to[1] == e.shape()[1]))
    e.fail("no layer resizes to " + to_string(to));
  std::vector<std::int64_t> size;
  for (std::size_t i = 2; i < to.size(); ++i) size.push_back(e.fixed(to[i], "a size"));
  std::string call = "Interpolate(size=" + (size.size() == 1 ? std::to_string(size[0]) : list_text(size));
  if (const std::string mode = interpolation_mode(e); !mode.empty()) {
    const bool corners = e.text("coordinate_transformation_mode", "half_pixel") == "align_corners";
    call += ", mode='" + mode + "', align_corners=" + (corners ? "True" : "False");
    if (e.integer("antialias", 0) != 0) call += ", antialias=True";
  }
  e.layer(call + ")");
}

// Depth to space as torch's pixel_shuffle would be written: a view, a permutation and a copy.
void emit_depth_to_space(Emission& e) {
  const std::int64_t block = e.integer("blocksize", 1);
  const Extents& x = e.shape();
  const Extents& y = e.result().shape;
  const bool column_first = e.text("mode", "DCR") == "CRD";
  const Extents apart =
      column_first ? Extents{x[0], y[1], block, block, x[2], x[3]} : Extents{x[0], block, block, y[1], x[2], x[3]};
  const std::string view = e.writer().add(e.wish(), "Reshape(" + e.sizes(apart) + ")", {e.input(0)});
  const std::string order = column_first ? "Permute(0, 1, 4, 2, 5, 3)" : "Permute(0, 3, 4, 1, 5, 2)";
  const std::string turned = e.writer().add(e.wish(), order, {view});
  e.give(e.writer().add(e.wish(), "Reshape(" + e.sizes(y) + ")", {turned}));
}

void emit_space_to_depth(Emission& e) {
  const std::int64_t block = e.integer("blocksize", 1);
  const Extents& x = e.shape();
  const Extents& y = e.result().shape;
  const Extents apart = {x[0], x[1], y[2], block, y[3], block};
  const std::string view = e.writer().add(e.wish(), "Reshape(" + e.sizes(apart) + ")", {e.input(0)});
  const std::string turned = e.writer().add(e.wish(), "Permute(0, 3, 5, 1, 2, 4)", {view});
  e.give(e.writer().add(e.wish(), "Reshape(" + e.sizes(y) + ")", {turned}));
}

}  // namespace

std::vector<NamedEmitRule> movement_emitters() {
  return {{"Reshape", emit_reshape},
          {"Flatten", emit_reshape},
          {"Transpose", emit_transpose},
          {"Unsqueeze", emit_unsqueeze},
          {"Squeeze", emit_squeeze},
          {"Expand", emit_expand},
          {"Concat", emit_concat},
          {"Split", emit_split},
          {"Slice", emit_slice},
          {"Tile", emit_tile},
          {"Pad", emit_pad},
          {"Resize", emit_resize},
          {"Upsample", emit_resize},
          {"DepthToSpace", emit_depth_to_space},
          {"SpaceToDepth", emit_space_to_depth}};
}

}  // namespace gpuplan::onnx_import
