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
  std::vector<std::int64_t> order = e.integers("perm");
  if (order.empty())
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
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
int class_token(const Graph& graph, const Node& concat) {
  if (concat.inputs.size() != 2 || concat.inputs[0] == kNone || concat.outputs.empty()) return kNone;
  const auto axis = concat.attributes.find("axis");
  const bool tokens = axis != concat.attributes.end() && (axis->second.integer == 1 || axis->second.integer == -2);
  if (!tokens || graph.value(concat.outputs.front()).shape.size() != 3) return kNone;
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
  const Node& user = e.graph().nodes[static_cast<std::size_t>(y.users.front())];
  return user.op == "Concat" && class_token(e.graph(), user) != kNone;
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
      e.fail("repeats to " + to_string(to[i]) + ", a size that no layer makes");
    sizes += (i > 0 ? ", " : "") + (is_old ? "-1" : to[i].fixed() ? to_string(to[i]) : "_");
  }
  e.layer("Expand(" + sizes + ")");
}

// --- joining and cutting --------------------------------------------------------------------------------------------

void emit_concat(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", 0), e.result().shape.size());
  if (const int token = class_token(e.graph(), e.node()); token != kNone) {
    const std::string& name = e.graph().value(token).name;
    return e.give(e.writer().add_with_weight(token, is_generated(name) ? "class_token" : name,
                                             "ClassToken(" + to_string(e.result().shape[2]) + ")", {e.input(1)}));
  }
  std::vector<std::string> from;
  for (std::size_t i = 0; i < e.inputs(); ++i) {
    const Extents& x = e.shape(i);
    if (x[axis] == Extent(0)) continue;  // a cache that is still empty
    for (std::size_t d = 0; d < x.size(); ++d)
      if (d != axis && (e.in(i).kind != ValueKind::data || !(x[d] == e.result().shape[d])) &&
          !e.result().shape[d].fixed())
        e.fail("joins what is one for all of the batch, which no layer does");
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

void emit_slice(Emission& e) {
  const std::vector<std::int64_t> starts = e.numbers("starts", 1);
  const std::vector<std::int64_t> steps = e.numbers("steps", 4);
  std::vector<std::int64_t> axes = e.numbers("axes", 3);
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  for (const std::int64_t s : steps)
    if (s < 1) e.fail("a step of " + std::to_string(s) + ", which no layer takes");
  std::string name = e.input(0);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = e.axis(axes[i], e.shape().size());
    const Extent& size = e.shape()[axis];
    const Extent& left = e.result().shape[axis];
    if (left == size) continue;  // from the first to the last: of a size that may be the batch's
    const std::int64_t all = e.fixed(size, "a dimension that is cut");
    const std::int64_t start = std::clamp<std::int64_t>(starts[i] < 0 ? starts[i] + all : starts[i], 0, all);
    const std::int64_t step = steps.empty() ? 1 : steps[i];
    const std::int64_t end = std::min(all, start + e.fixed(left, "what is left") * step);
    name = e.writer().add(e.wish(),
                          "Slice(" + std::to_string(axis) + ", " + std::to_string(start) + ", " + std::to_string(end) +
                              (step == 1 ? ")" : ", " + std::to_string(step) + ")"),
                          {name});
  }
  e.give(name);
}

// --- looking up -----------------------------------------------------------------------------------------------------

void emit_embedding(Emission& e) {
  const Extents& table = e.shape(0);
  // Tied weights are called by one of their modules.
  const std::string module =
      e.node().module.empty() ? module_of_weight(e.graph().value(e.in(0).initializer).name) : module_of_node(e.node());
  const std::string from = e.input(1);
  e.give(e.writer().add_with_weight(e.value(0), module.empty() ? e.wish() : module,
                                    "Embedding(" + to_string(table[0]) + ", " + to_string(table[1]) + ")", {from}));
}

void emit_gather(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", 0), e.shape(0).size());
  const Value& table = e.in(0);
  const Value& index = e.in(1);
  if (index.shape.empty()) {
    const std::optional<double> at = e.number(1);
    if (!at) e.fail("its position is computed, which no layer takes");
    const auto position = static_cast<std::int64_t>(*at);
    return e.layer("Select(" + std::to_string(axis) + ", " + std::to_string(position) + ")");
  }
  if (table.kind == ValueKind::weight && table.shape.size() == 2 && axis == 0) return emit_embedding(e);
  if (index.shape.size() != 1) e.fail("looks up several dimensions, which no layer does");
  e.give(e.writer().add(e.wish(), "IndexSelect(" + std::to_string(axis) + ")", {e.input(0), e.input(1)}));
}

// What is one for all of the batch is written without the batch: repeated for it.
std::string for_the_batch(Emission& e, std::size_t i) {
  const std::string name = e.input(i);
  const Extents& shape = e.shape(i);
  const auto batch = std::find_if(shape.begin(), shape.end(), [](const Extent& size) { return !size.fixed(); });
  if (e.in(i).kind == ValueKind::data || batch == shape.end()) return name;
  if (!(*batch == batch_extent())) e.fail("repeats to " + to_string(*batch) + ", a size that no layer makes");
  std::string sizes;
  for (auto size = shape.begin(); size != shape.end(); ++size)
    sizes += (size == shape.begin() ? "" : ", ") + std::string(size == batch ? "_" : "-1");
  return e.writer().add(name + "_expand", "Expand(" + sizes + ")", {name});
}

void emit_gather_elements(Emission& e) {
  const std::size_t axis = e.axis(e.integer("axis", 0), e.shape(0).size());
  const std::string from = for_the_batch(e, 0);
  e.give(e.writer().add(e.wish(), "Gather(" + std::to_string(axis) + ")", {from, for_the_batch(e, 1)}));
}

// x[index] of a table of rows: torch's index with one tensor.
void emit_gather_nd(Emission& e) {
  const Extents& index = e.shape(1);
  if (e.shape(0).size() != 2 || e.integer("batch_dims", 0) != 0 || !(index.back() == Extent(1)) ||
      e.in(1).kind != ValueKind::constant)
    e.fail("an index of several dimensions, which no layer takes");
  const Extents places(index.begin(), index.end() - 1);
  const std::string table = e.input(0);
  const std::string rows = e.writer().add(e.wish() + "_index", "Buffer(" + e.sizes(places) + ", dtype=int64)", {});
  e.give(e.writer().add(e.wish(), "Index()", {table, rows}));
}

// Numbers written into a copy of a tensor. Code that writes into the tensor itself allocates nothing; which of the two
// it was, a file does not say.
void emit_scatter_nd(Emission& e) {
  if (e.in(2).kind == ValueKind::data || e.in(1).kind == ValueKind::data) e.fail("writes what is computed");
  e.layer("Clone()");
}

void emit_pad(Emission& e) {
  if (e.text("mode", "constant") != "constant")
    e.fail("padding by " + std::string(e.text("mode", "")) + " is no layer");
  const std::vector<std::int64_t> pads = e.numbers("pads", 1);
  const std::size_t rank = e.shape().size();
  std::vector<std::int64_t> axes = e.has(3) ? e.numbers("axes", 3) : std::vector<std::int64_t>();
  if (axes.empty())
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::vector<std::int64_t> sides(2 * rank, 0);  // last dimension first, as torch's
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t place = 2 * (rank - 1 - e.axis(axes[i], rank));
    sides[place] = pads[i];
    sides[place + 1] = pads[axes.size() + i];
  }
  while (sides.size() > 2 && sides.back() == 0 && sides[sides.size() - 2] == 0) sides.resize(sides.size() - 2);
  if (same_shape(e)) return e.pass();
  const double value = e.number(2).value_or(e.real("value", 0));
  e.layer("Pad(" + list_text(sides) + (value == 0 ? "" : ", value=" + to_text(value)) + ")");
}

void emit_resize(Emission& e) {
  const Extents& to = e.result().shape;
  if (to.size() != 4 || !(to[0] == e.shape()[0]) || !(to[1] == e.shape()[1]))
    e.fail("no layer resizes " + to_string(to));
  const std::string_view mode = e.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear") e.fail("no layer resizes by " + std::string(mode));
  std::string call = "Interpolate(size=[" + to_string(to[2]) + ", " + to_string(to[3]) + "]";
  if (mode == "linear") {
    const bool corners = e.text("coordinate_transformation_mode", "half_pixel") == "align_corners";
    call += std::string(", mode='bilinear', align_corners=") + (corners ? "True" : "False");
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
          {"Gather", emit_gather},
          {"GatherElements", emit_gather_elements},
          {"GatherND", emit_gather_nd},
          {"ScatterND", emit_scatter_nd},
          {"Pad", emit_pad},
          {"Resize", emit_resize},
          {"Upsample", emit_resize},
          {"DepthToSpace", emit_depth_to_space},
          {"SpaceToDepth", emit_space_to_depth}};
}

}  // namespace gpuplan::onnx_import
