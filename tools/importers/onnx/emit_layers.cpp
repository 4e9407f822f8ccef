// Layers with weights and windows.
#include <algorithm>

#include "tools/importers/onnx/emit_window.h"

namespace gpuplan::onnx_import {
namespace {

// The name of a layer with this weight: its module's. Where the exporter made the weight's name up, the node's module,
// and last the bias's, which may be one that several layers share.
std::string wish_of(const Emission& e, std::initializer_list<std::size_t> weights) {
  const auto of_weight = [&](std::size_t i) {
    return e.has(i) && e.in(i).initializer != kNone ? module_of_weight(e.graph().value(e.in(i).initializer).name) : "";
  };
  const std::string own = module_of_node(e.node());
  // A tied weight is called by another module.
  if (const std::size_t weight = weights.size() > 0 ? *weights.begin() : 0; !own.empty() && e.has(weight))
    if ((!e.node().module.empty() && e.in(weight).initializer != e.value(weight)) || e.is_tied(weight)) return own;
  if (weights.size() > 0)
    if (std::string module = of_weight(*weights.begin()); !module.empty()) return module;
  if (!own.empty()) return own;
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
  const Extents& w = e.shape(1);
  Windows windows = windows_of(e, spatial(e, w));
  const std::string from = padded_input(e, windows);
  const std::int64_t groups = e.integer("group", 1);
  std::string call = dimensions(e, "Conv") + "(" + to_string(e.shape()[1]) + ", " + to_string(w[0]) + ", " +
                     pair_text(windows.kernel) + window_arguments(windows);
  if (groups != 1) call += ", groups=" + std::to_string(groups);
  if (!e.has(2)) call += ", bias=False";
  // Code that convolves with a buffer, as a blur does, or with a weight that it computes hands it to F.conv2d.
  if (e.in(1).is_buffer || e.in(1).kind == ValueKind::data) {
    std::vector<std::string> operands = {from, e.input(1)};
    if (e.has(2)) operands.push_back(e.input(2));
    return e.give(e.writer().add(e.wish(), call + ")", operands));
  }
  e.give(e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1, 2}), call + ")", {from}));
}

void emit_conv_transpose(Emission& e) {
  expect_weight(e, 1);
  const Extents& w = e.shape(1);
  const Windows windows = windows_of(e, spatial(e, w));
  if (!windows.pads.symmetric()) e.fail("its sides are padded differently, which no layer supports");
  const std::int64_t groups = e.integer("group", 1);
  std::string call = dimensions(e, "ConvTranspose") + "(" + to_string(w[0]) + ", " + to_string(w[1] * Extent(groups)) +
                     ", " + pair_text(windows.kernel) + window_arguments(windows);
  const auto extra = e.integers("output_padding");
  if (std::any_of(extra.begin(), extra.end(), [](std::int64_t n) { return n != 0; }))
    call += ", output_padding=" + pair_text(extra);
  if (groups != 1) call += ", groups=" + std::to_string(groups);
  if (!e.has(2)) call += ", bias=False";
  e.give(e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1, 2}), call + ")", {e.input(0)}));
}

// --- products -------------------------------------------------------------------------------------------------------

void linear(Emission& e, const Extent& in, const Extent& out, bool bias) {
  const std::string call = "Linear(" + to_string(in) + ", " + to_string(out) + (bias ? ")" : ", bias=False)");
  e.give(e.writer().add_with_weight(weight_of(e, 1), wish_of(e, {1, 2}), call, {e.input(0)}));
}

// Two matrices of which the second is computed, as torch.mm and torch.addmm multiply them.
void emit_product(Emission& e) {
  std::vector<std::string> factors;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    factors.push_back(e.input(i));
    if (e.integer(i == 0 ? "transA" : "transB", 0) != 0)
      factors.back() = e.writer().add(e.wish() + "_turned", "Transpose(0, 1)", {factors.back()});
  }
  const std::string product = e.writer().add(e.wish(), "MatMul()", factors);
  e.give(e.has(2) ? e.writer().add(e.wish() + "_sum", "Add()", {product, e.input(2)}) : product);
}

void emit_gemm(Emission& e) {
  if (e.real("alpha", 1) != 1 || (e.has(2) && e.real("beta", 1) != 1))
    e.fail("its alpha and beta have values that no layer supports");
  if (e.in(1).kind == ValueKind::data || e.integer("transA", 0) != 0) return emit_product(e);
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
  return e.in(1).kind != ValueKind::data && !e.in(1).is_buffer && e.shape(1).size() == 2 && e.shape(0).size() >= 2;
}

void emit_matmul(Emission& e) {
  if (is_matrix_weight(e)) return linear(e, e.shape(1)[0], e.shape(1)[1], false);
  e.give(e.writer().add(e.wish(), "MatMul()", {e.input(0), e.input(1)}));
}

// MatMul and Add of a bias (fuse.cpp).
void emit_linear(Emission& e) { linear(e, e.shape(1)[0], e.shape(1)[1], true); }

// --- normalisation --------------------------------------------------------------------------------------------------

std::string epsilon(const Emission& e, double usual) {
  const double eps = e.real("epsilon", 1e-5);
  return static_cast<float>(eps) == static_cast<float>(usual) ? "" : ", eps=" + to_text(static_cast<float>(eps));
}

// Weights are initializers; a constant of ones, which torch.onnx writes where there is no weight, is a node. Its newer
// exporter, which writes an initializer, notes the call, whose operands are the input, the weight and the bias.
bool is_trained(const Emission& e, std::size_t i) {
  const std::string& call = e.node().call;
  if ((call.starts_with("aten.layer_norm") || call.starts_with("aten.group_norm")) && i >= e.node().operands.size())
    return false;
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

// Of F.batch_norm without running statistics (fuse.cpp): its weights are what the model's code hands it.
void emit_batch_statistics(Emission& e) {
  const std::size_t rank = e.shape().size();
  if (rank < 2 || rank > 4) e.fail("no batch norm over " + to_string(e.shape()));
  const std::string call = (rank == 4 ? "BatchNorm2d(" : "BatchNorm1d(") + to_string(e.shape()[1]) + epsilon(e, 1e-5) +
                           (e.has(1) ? "" : ", affine=False") + ", track_running_stats=False)";
  std::vector<std::string> operands = {e.input(0)};
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (e.has(i)) operands.push_back(e.input(i));
  e.give(e.writer().add(e.wish(), call, operands));
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
  if (e.shape().size() < 2) e.fail("no group norm over " + to_string(e.shape()));
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
  expect_weight(e, 1);
  const std::string call = "LlamaRMSNorm(" + to_string(e.shape().back()) +
                           ", eps=" + to_text(static_cast<float>(e.real("epsilon", 1e-6))) + ")";
  e.give(e.writer().add_with_weight(e.value(1), wish_of(e, {1}), call, {e.input(0)}));
}

void emit_normalize(Emission& e) { e.layer("Normalize(dim=" + std::to_string(e.integer("dim", 1)) + ")"); }

// The slopes lie as [C, 1, 1], as they are spread over the input.
void emit_prelu(Emission& e) {
  expect_weight(e, 1);
  const Extent slopes = product(e.shape(1));
  e.give(e.writer().add_with_weight(e.value(1), wish_of(e, {1}), "PReLU(" + to_string(slopes) + ")", {e.input(0)}));
}

// --- recurrence -----------------------------------------------------------------------------------------------------

// torch.nn has these activations; ONNX names them one direction after the other. True: an RNN of Relu.
bool has_relu(const Emission& e, std::int64_t directions) {
  std::vector<std::string> given = e.texts("activations");
  if (given.empty()) return false;
  const std::string& op = e.node().op;
  if (op == "RNN" && given == std::vector<std::string>(static_cast<std::size_t>(directions), "Relu")) return true;
  std::vector<std::string> known;
  for (std::int64_t i = 0; i < directions; ++i) {
    if (op != "RNN") known.emplace_back("Sigmoid");
    known.emplace_back("Tanh");
    if (op == "LSTM") known.emplace_back("Tanh");
  }
  if (given != known) e.fail("its activations are not those of torch.nn's " + op);
  return false;
}

// X [t, b, i], W [d, g h, i], R [d, g h, h], B, lengths, and first states. Y [t, d, b, h] is [t, b, d h] turned.
void emit_recurrent(Emission& e) {
  const Extents& r = e.shape(2);
  if (e.has(4)) e.fail("sequences of different lengths are not supported");
  if (e.has(7)) e.fail("peepholes are not supported");
  const std::int64_t directions = e.fixed(r[0], "the directions");
  const std::int64_t hidden = e.fixed(r[2], "the hidden size");
  if (e.text("direction", "forward") == "reverse") e.fail("torch.nn has no layer that runs in reverse only");
  std::string call = e.node().op + "(" + to_string(e.shape()[2]) + ", " + std::to_string(hidden);
  if (has_relu(e, directions)) call += ", nonlinearity=relu";
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

// --- attention (fuse.cpp)
// ---------------------------------------------------------------------------------------------

void emit_attention(Emission& e) {
  std::vector<std::string> from = {e.input(0), e.input(1), e.input(2)};
  if (e.has(3)) from.push_back(e.input(3));
  const bool causal = e.integer("is_causal", 0) != 0;
  e.give(e.writer().add(e.wish(), causal ? "ScaledDotProductAttention(is_causal=True)" : "ScaledDotProductAttention()",
                        from));
}

}  // namespace

std::vector<NamedEmitRule> layer_emitters() {
  return {{"Conv", emit_conv},
          {"ConvTranspose", emit_conv_transpose},
          {"Gemm", emit_gemm},
          {"MatMul", emit_matmul},
          {"Linear", emit_linear},
          {"BatchNormalization", emit_batch_norm},
          {"BatchStatisticsNorm", emit_batch_statistics},
          {"LayerNormalization", emit_layer_norm},
          {"GroupNormalization", emit_group_norm},
          {"InstanceNormalization", emit_instance_norm},
          {"RootMeanSquareNorm", emit_rms_norm},
          {"Normalize", emit_normalize},
          {"PRelu", emit_prelu},
          {"LSTM", emit_recurrent},
          {"GRU", emit_recurrent},
          {"RNN", emit_recurrent},
          {"ScaledDotProductAttention", emit_attention}};
}

}  // namespace gpuplan::onnx_import
