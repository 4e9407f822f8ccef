// Layers with weights and windows.
#include <algorithm>

#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {
namespace {

// The name of a layer with this weight: its module's. Where the exporter made the weight's name up, the node's module,
// and last the bias's, which may be one that several layers share.
std::string wish_of(const Emission& e, std::initializer_list<std::size_t> weights) {
  const auto of_weight = [&](std::size_t i) {
    return e.has(i) && e.in(i).initializer != kNone ? module_of_weight(e.graph().value(e.in(i).initializer).name) : "";
  };
  // A tied weight is called by another module.
  if (const std::size_t weight = weights.size() > 0 ? *weights.begin() : 0;
      !e.node().module.empty() && e.has(weight) && e.in(weight).initializer != e.value(weight))
    return module_of_node(e.node());
  if (weights.size() > 0)
    if (std::string module = of_weight(*weights.begin()); !module.empty()) return module;
  if (std::string module = module_of_node(e.node()); !module.empty()) return module;
  for (const std::size_t i : weights)
    if (std::string module = of_weight(i); !module.empty()) return module;
  return e.wish();
}

// A layer's weight must lie in the file: what is computed is none.
void expect_weight(const Emission& e, std::size_t i) {
  if (e.in(i).kind == ValueKind::data)
    e.fail("its weight \"" + printable(e.in(i).name) + "\" is computed from the input");
}

// A constant of a made-up name in the place of a weight is a weight, too.
int weight_of(const Emission& e, std::size_t i) { return e.value(i); }

std::vector<std::int64_t> or_ones(std::vector<std::int64_t> given, std::size_t count) {
  if (given.empty()) given.assign(count, 1);
  return given;
}

// Paddings before and after each dimension; `SAME` computed as ONNX says.
struct Paddings {
  std::vector<std::int64_t> before, after;
  bool symmetric() const { return before == after; }
  bool none() const {
    const auto zero = [](std::int64_t n) { return n == 0; };
    return std::all_of(before.begin(), before.end(), zero) && std::all_of(after.begin(), after.end(), zero);
  }
};

Paddings paddings(const Emission& e, const std::vector<std::int64_t>& kernel, const std::vector<std::int64_t>& strides,
                  const std::vector<std::int64_t>& dilations) {
  Paddings p;
  const std::size_t count = kernel.size();
  std::vector<std::int64_t> pads = e.integers("pads");
  if (pads.empty()) pads.assign(2 * count, 0);
  p.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(count));
  p.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(count), pads.end());
  const std::string_view automatic = e.text("auto_pad", "NOTSET");
  if (!automatic.starts_with("SAME")) return p;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t size = e.fixed(e.shape()[i + 2], "a padded size");
    const std::int64_t all = std::max<std::int64_t>(
        0, (ceil_div(size, strides[i]) - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1 - size);
    p.before[i] = automatic == "SAME_LOWER" ? all - all / 2 : all / 2;
    p.after[i] = all - p.before[i];
  }
  return p;
}

// Pad() of what torch.nn's layers cannot pad: unlike sides. Returns the input's name, and sets the paddings to 0.
std::string padded_input(Emission& e, Paddings& p) {
  if (p.symmetric()) return e.input(0);
  std::vector<std::int64_t> pad;
  for (std::size_t i = p.before.size(); i-- > 0;) pad.insert(pad.end(), {p.before[i], p.after[i]});
  p.before.assign(p.before.size(), 0);
  p.after = p.before;
  return e.writer().add(e.wish() + "_pad", "Pad(" + list_text(pad) + ")", {e.input(0)});
}

std::string window_arguments(const std::vector<std::int64_t>& strides, const Paddings& p,
                             const std::vector<std::int64_t>& dilations) {
  const auto is = [](const std::vector<std::int64_t>& list, std::int64_t n) {
    return std::all_of(list.begin(), list.end(), [&](std::int64_t i) { return i == n; });
  };
  std::string text;
  if (!is(strides, 1)) text += ", stride=" + pair_text(strides);
  if (!p.none()) text += ", padding=" + pair_text(p.before);
  if (!is(dilations, 1)) text += ", dilation=" + pair_text(dilations);
  return text;
}

std::vector<std::int64_t> spatial(const Emission& e, const Extents& weight) {
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 2; i < weight.size(); ++i) kernel.push_back(e.fixed(weight[i], "a kernel"));
  return kernel;
}

std::string dimensions(const Emission& e, std::string_view layer) {
  const std::size_t count = e.shape().size() - 2;
  if (count != 1 && count != 2) e.fail("no layer " + std::string(layer) + std::to_string(count) + "d");
  return std::string(layer) + std::to_string(count) + "d";
}

void emit_conv(Emission& e) {
  expect_weight(e, 1);
  const Extents& w = e.shape(1);
  const std::vector<std::int64_t> kernel = spatial(e, w);
  const std::vector<std::int64_t> strides = or_ones(e.integers("strides"), kernel.size());
  const std::vector<std::int64_t> dilations = or_ones(e.integers("dilations"), kernel.size());
  Paddings p = paddings(e, kernel, strides, dilations);
  const std::string from = padded_input(e, p);
  const std::int64_t groups = e.integer("group", 1);
  std::string call = dimensions(e, "Conv") + "(" + to_string(e.shape()[1]) + ", " + to_string(w[0]) + ", " +
                     pair_text(kernel) + window_arguments(strides, p, dilations);
  if (groups != 1) call += ", groups=" + std::to_string(groups);
  if (!e.has(2)) call += ", bias=False";
  e.give(e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1, 2}), call + ")", {from}));
}

void emit_conv_transpose(Emission& e) {
  expect_weight(e, 1);
  const Extents& w = e.shape(1);
  const std::vector<std::int64_t> kernel = spatial(e, w);
  const std::vector<std::int64_t> strides = or_ones(e.integers("strides"), kernel.size());
  const std::vector<std::int64_t> dilations = or_ones(e.integers("dilations"), kernel.size());
  const Paddings p = paddings(e, kernel, strides, dilations);
  if (!p.symmetric()) e.fail("its sides are padded differently, which no layer does");
  const std::int64_t groups = e.integer("group", 1);
  std::string call = dimensions(e, "ConvTranspose") + "(" + to_string(w[0]) + ", " + to_string(w[1] * Extent(groups)) +
                     ", " + pair_text(kernel) + window_arguments(strides, p, dilations);
  if (const auto extra = e.integers("output_padding"); !extra.empty()) call += ", output_padding=" + pair_text(extra);
  if (groups != 1) call += ", groups=" + std::to_string(groups);
  if (!e.has(2)) call += ", bias=False";
  e.give(e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1, 2}), call + ")", {e.input(0)}));
}

// --- products -------------------------------------------------------------------------------------------------------

void linear(Emission& e, const Extent& in, const Extent& out, bool bias) {
  const std::string call = "Linear(" + to_string(in) + ", " + to_string(out) + (bias ? ")" : ", bias=False)");
  e.give(e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1, 2}), call, {e.input(0)}));
}

void emit_gemm(Emission& e) {
  if (e.in(1).kind == ValueKind::data) e.fail("a product of two computed matrices with a sum is no layer");
  if (e.integer("transA", 0) != 0 || e.real("alpha", 1) != 1 || (e.has(2) && e.real("beta", 1) != 1))
    e.fail("factors, or a transposed input, are no linear layer");
  const Extents& w = e.shape(1);
  const bool turned = e.integer("transB", 0) != 0;
  const Extent in = turned ? w[1] : w[0];
  const Extent out = turned ? w[0] : w[1];
  const bool bias = e.has(2);
  if (bias && e.in(2).kind == ValueKind::data) e.fail("adds what is computed, which no linear layer does");
  // nn.Linear keeps [out, in]; Hugging Face's Conv1D keeps [in, out] and always has a bias.
  const bool as_written = !is_generated(e.graph().value(std::max(e.in(1).initializer, 0)).name);
  if (!turned && !e.in(1).transposed && bias && as_written) {
    const std::string call = "Conv1D(" + to_string(out) + ", " + to_string(in) + ")";
    return e.give(e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1, 2}), call, {e.input(0)}));
  }
  linear(e, in, out, bias);
}

bool is_matrix_weight(const Emission& e) {
  return e.in(1).kind != ValueKind::data && e.shape(1).size() == 2 && e.shape(0).size() >= 2;
}

void emit_matmul(Emission& e) {
  if (is_matrix_weight(e)) return linear(e, e.shape(1)[0], e.shape(1)[1], false);
  e.give(e.writer().add(e.wish(), "MatMul()", {e.input(0), e.input(1)}));
}

// MatMul and Add of a bias (fuse.h).
void emit_linear(Emission& e) { linear(e, e.shape(1)[0], e.shape(1)[1], true); }

// --- normalisation --------------------------------------------------------------------------------------------------

std::string epsilon(const Emission& e, double usual) {
  const double eps = e.real("epsilon", 1e-5);
  return static_cast<float>(eps) == static_cast<float>(usual) ? "" : ", eps=" + to_text(static_cast<float>(eps));
}

// Weights are initializers; a constant of ones, which torch.onnx writes where there is no weight, is a node.
bool is_trained(const Emission& e, std::size_t i) {
  return e.has(i) && e.in(i).kind != ValueKind::data && e.in(i).initializer != kNone;
}

void emit_batch_norm(Emission& e) {
  const std::size_t rank = e.shape().size();
  if (rank < 2 || rank > 4) e.fail("no batch norm over " + to_string(e.shape()));
  std::string call = (rank == 4 ? "BatchNorm2d(" : "BatchNorm1d(") + to_string(e.shape()[1]) + epsilon(e, 1e-5);
  if (!is_trained(e, 1)) call += ", affine=False";
  e.give(
      e.writer().add_with_weight(e.value(is_trained(e, 1) ? 1 : 3), wish_of(e, {1, 2, 3}), call + ")", {e.input(0)}));
}

void emit_layer_norm(Emission& e) {
  const Extents& x = e.shape();
  const std::size_t axis = e.axis(e.integer("axis", -1), x.size());
  std::vector<std::int64_t> sizes;
  for (std::size_t i = axis; i < x.size(); ++i) sizes.push_back(e.fixed(x[i], "a normalised size"));
  std::string call =
      "LayerNorm(" + (sizes.size() == 1 ? std::to_string(sizes[0]) : list_text(sizes)) + epsilon(e, 1e-5);
  if (!is_trained(e, 1)) {
    return e.give(e.writer().add(wish_of(e, {1, 2}), call + ", elementwise_affine=False)", {e.input(0)}));
  }
  if (!is_trained(e, 2)) call += ", bias=False";
  e.give(e.writer().add_with_weight(e.value(1), wish_of(e, {1, 2}), call + ")", {e.input(0)}));
}

void emit_group_norm(Emission& e) {
  std::string call =
      "GroupNorm(" + std::to_string(e.integer("num_groups", 0)) + ", " + to_string(e.shape()[1]) + epsilon(e, 1e-5);
  if (!is_trained(e, 1)) return e.give(e.writer().add(wish_of(e, {1, 2}), call + ", affine=False)", {e.input(0)}));
  e.give(e.writer().add_with_weight(e.value(1), wish_of(e, {1, 2}), call + ")", {e.input(0)}));
}

void emit_instance_norm(Emission& e) {
  if (e.shape().size() != 4) e.fail("no instance norm over " + to_string(e.shape()));
  std::string call = "InstanceNorm2d(" + to_string(e.shape()[1]) + epsilon(e, 1e-5);
  if (!is_trained(e, 1)) return e.give(e.writer().add(wish_of(e, {}), call + ")", {e.input(0)}));
  e.give(e.writer().add_with_weight(e.value(1), wish_of(e, {1, 2}), call + ", affine=True)", {e.input(0)}));
}

void emit_rms_norm(Emission& e) {
  const std::string call = "LlamaRMSNorm(" + to_string(e.shape().back()) +
                           ", eps=" + to_text(static_cast<float>(e.real("epsilon", 1e-6))) + ")";
  e.give(e.writer().add_with_weight(e.value(1), wish_of(e, {1}), call, {e.input(0)}));
}

void emit_normalize(Emission& e) { e.layer("Normalize(dim=" + std::to_string(e.integer("dim", 1)) + ")"); }

// --- pooling --------------------------------------------------------------------------------------------------------

// Before opset 10 there is no ceil_mode: exporters pad the ends by what the last windows lack.
bool is_rounded_up(const Emission& e, const std::vector<std::int64_t>& kernel, const std::vector<std::int64_t>& strides,
                   const Paddings& p) {
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const std::int64_t size = e.fixed(e.shape()[i + 2], "a pooled size");
    const std::int64_t span = size + 2 * p.before[i] - kernel[i];
    std::int64_t positions = ceil_div(span, strides[i]) + 1;
    if ((positions - 1) * strides[i] >= size + p.before[i]) --positions;
    if (span < 0 || p.after[i] < p.before[i] || !(e.result().shape[i + 2] == Extent(positions))) return false;
  }
  return true;
}

void emit_pool(Emission& e) {
  const bool max = e.node().op == "MaxPool";
  if (e.shape().size() != 4) e.fail("no pooling over " + to_string(e.shape()));
  const std::vector<std::int64_t> kernel = e.integers("kernel_shape");
  const std::vector<std::int64_t> strides = or_ones(e.integers("strides"), kernel.size());
  const std::vector<std::int64_t> dilations = or_ones(e.integers("dilations"), kernel.size());
  Paddings p = paddings(e, kernel, strides, dilations);
  const bool counts = e.integer("count_include_pad", 0) != 0;
  if (!p.symmetric() && !max && !counts)
    e.fail("its sides are padded differently and not counted, which no layer does");
  const bool rounds_up =
      e.integer("ceil_mode", 0) != 0 || (max && !p.symmetric() && is_rounded_up(e, kernel, strides, p));
  if (rounds_up) p.after = p.before;
  if (!p.symmetric() && max) e.fail("its sides are padded differently, which no layer does");
  const std::string from = padded_input(e, p);
  std::string call = (max ? "MaxPool2d(" : "AvgPool2d(") + pair_text(kernel) + ", stride=" + pair_text(strides);
  if (!p.none()) call += ", padding=" + pair_text(p.before);
  if (max && pair_text(dilations) != "1") call += ", dilation=" + pair_text(dilations);
  if (rounds_up) call += ", ceil_mode=True";
  if (!max && !counts && !p.none()) call += ", count_include_pad=False";
  e.give(e.writer().add(e.wish(), call + ")", {from}));
}

void emit_global_average_pool(Emission& e) {
  if (e.shape().size() == 4) return e.layer("AdaptiveAvgPool2d(1)");
  std::vector<std::int64_t> dims;
  for (std::size_t i = 2; i < e.shape().size(); ++i) dims.push_back(static_cast<std::int64_t>(i));
  e.layer("Mean(dim=" + list_text(dims) + ", keepdim=True)");
}

// --- recurrence -----------------------------------------------------------------------------------------------------

// X [t, b, i], W [d, g h, i], R [d, g h, h], B, lengths, and first states. Y [t, d, b, h] is [t, b, d h] turned.
void emit_recurrent(Emission& e) {
  const Extents& r = e.shape(2);
  if (e.has(4)) e.fail("sequences of different lengths are not supported");
  if (e.has(7)) e.fail("peepholes are not supported");
  const std::int64_t directions = e.fixed(r[0], "the directions");
  const std::int64_t hidden = e.fixed(r[2], "the hidden size");
  if (e.text("direction", "forward") == "reverse") e.fail("a reversed direction alone is no layer of torch.nn");
  std::string call = e.node().op + "(" + to_string(e.shape()[2]) + ", " + std::to_string(hidden);
  if (!e.has(3)) call += ", bias=False";
  if (directions == 2) call += ", bidirectional=True";
  const std::string name = e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1}), call + ")", {e.input(0)});
  std::vector<int> results = {kNone};
  results.insert(results.end(), e.node().outputs.begin() + std::min<std::ptrdiff_t>(1, std::ssize(e.node().outputs)),
                 e.node().outputs.end());
  const std::size_t states = e.node().op == "LSTM" ? 3 : 2;
  results.resize(states, kNone);
  e.writer().give_parts(results, name);
  if (e.node().outputs.empty() || e.node().outputs.front() == kNone) return;
  if (directions == 1) return e.give(e.writer().add(name + "_directions", "Unsqueeze(1)", {name + ".0"}));
  const Extents split = {e.shape()[0], e.shape()[1], directions, hidden};
  const std::string parts = e.writer().add(name + "_split", "Reshape(" + e.sizes(split) + ")", {name + ".0"});
  e.give(e.writer().add(name + "_directions", "Permute(0, 2, 1, 3)", {parts}));
}

// --- attention (fuse.h) ---------------------------------------------------------------------------------------------

void emit_attention(Emission& e) {
  std::vector<std::string> from = {e.input(0), e.input(1), e.input(2)};
  if (e.has(3)) from.push_back(e.input(3));
  e.give(e.writer().add(e.wish(), "ScaledDotProductAttention()", from));
}

}  // namespace

std::vector<NamedEmitRule> layer_emitters() {
  return {{"Conv", emit_conv},
          {"ConvTranspose", emit_conv_transpose},
          {"Gemm", emit_gemm},
          {"MatMul", emit_matmul},
          {"Linear", emit_linear},
          {"BatchNormalization", emit_batch_norm},
          {"LayerNormalization", emit_layer_norm},
          {"GroupNormalization", emit_group_norm},
          {"InstanceNormalization", emit_instance_norm},
          {"RootMeanSquareNorm", emit_rms_norm},
          {"Normalize", emit_normalize},
          {"MaxPool", emit_pool},
          {"AveragePool", emit_pool},
          {"GlobalAveragePool", emit_global_average_pool},
          {"LSTM", emit_recurrent},
          {"GRU", emit_recurrent},
          {"RNN", emit_recurrent},
          {"ScaledDotProductAttention", emit_attention}};
}

}  // namespace gpuplan::onnx_import
