// LSTM, GRU: torch.nn's recurrent layers by cuDNN.
//
// aten/src/ATen/native/cudnn/RNN.cpp: zeros for the first states, a contiguous copy of a batch-first input, the
// results, a workspace, and in training a reserve that is kept for backward, which makes zeros for the last states'
// gradients and runs twice, for the input and for the weights. cuDNN does not say how large workspace and reserve are.
// The reserve is assumed to hold, for every layer and direction, the gates and one more value (LSTM) or three (GRU) of
// each step, and every layer's result but the last: the two published figures for one shape, 736,000,000 and
// 864,000,000 bytes (PyTorch issue 2895), are 23 and 27 values a unit of four layers so counted. The workspace is
// assumed to hold one layer's gates. Not modelled: the weights' copy into one buffer, and dropout's random state.

#include <string>

#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/integers.h"
#include "estimator/memory/reduction.h"

namespace gpuplan::layers {
namespace {

enum class Cell : std::uint8_t { lstm, gru };

constexpr std::int64_t kMaxLayers = 64;

struct Recurrence {
  Cell cell = Cell::lstm;
  std::int64_t steps = 0, batch = 0, features = 0, hidden = 0, layers = 1, directions = 1;
  bool bias = true, batch_first = false;
  DType dtype = DType::fp32;

  std::int64_t gates() const { return cell == Cell::lstm ? 4 : 3; }
  std::int64_t width(std::int64_t layer) const { return layer == 0 ? features : directions * hidden; }
  Shape state() const { return {layers * directions, batch, hidden}; }
  Shape result() const { return {steps, batch, directions * hidden}; }
  int states() const { return cell == Cell::lstm ? 2 : 1; }

  std::int64_t macs() const {
    std::int64_t weights = 0;
    for (std::int64_t l = 0; l < layers; ++l)
      weights = checked_add(weights, checked_mul(checked_mul(gates() * directions, hidden), width(l) + hidden));
    return checked_mul(checked_mul(steps, batch), weights);
  }
  std::int64_t values() const { return checked_mul(result().elements(), size_of(dtype)); }  // bytes of one a unit
  std::int64_t reserve_bytes() const {
    const std::int64_t kept = gates() + (cell == Cell::lstm ? 1 : 3);
    return checked_mul(values(), layers * kept + layers - 1);
  }
  std::int64_t workspace_bytes() const { return checked_mul(values(), gates()); }
};

Recurrence recurrence(LayerBuilder& b, Cell cell) {
  b.expect_rank(3, "[tokens, batch, features], or [batch, tokens, features] with batch_first");
  const Shape in = b.shape(b.input());
  Recurrence r;
  r.cell = cell;
  r.batch_first = b.boolean("batch_first");
  r.steps = in[r.batch_first ? 1 : 0];
  r.batch = in[r.batch_first ? 0 : 1];
  r.features = b.size("input_size", in[2], "input features");
  r.hidden = b.size("hidden_size");
  r.layers = b.size("num_layers");
  r.directions = b.boolean("bidirectional") ? 2 : 1;
  r.bias = b.boolean("bias");
  if (r.layers > kMaxLayers)
    b.fail("num_layers", "at most " + std::to_string(kMaxLayers) + " recurrent layers are supported");
  const double dropout = b.real("dropout");
  if (!(dropout >= 0 && dropout <= 1)) b.fail("dropout", "dropout is a probability", "expected 0 to 1");
  return r;
}

// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", then those of "_reverse", of every layer.
const std::vector<std::string>& weight_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (std::int64_t l = 0; l < kMaxLayers; ++l)
      for (const char* direction : {"", "_reverse"})
        for (const char* kind : {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l"})
          names.push_back(kind + std::to_string(l) + direction);
    return names;
  }();
  return kNames;
}

std::vector<TensorId> weights(LayerBuilder& b, const Recurrence& r) {
  std::vector<TensorId> all;
  const std::int64_t rows = checked_mul(r.gates(), r.hidden);
  for (std::int64_t l = 0; l < r.layers; ++l)
    for (std::int64_t d = 0; d < r.directions; ++d) {
      const std::string* name = &weight_names()[static_cast<std::size_t>(4 * (2 * l + d))];
      all.push_back(b.parameter(name[0], {rows, r.width(l)}));
      all.push_back(b.parameter(name[1], {rows, r.hidden}));
      if (!r.bias) continue;
      all.push_back(b.parameter(name[2], {rows}));
      all.push_back(b.parameter(name[3], {rows}));
    }
  return all;
}

// `results` tensors, the workspace, and `kept` more behind it.
Scripted kernel(const Recurrence& r, int results, int kept) {
  Scripted what{.macs = r.macs()};
  const auto act = [&](std::int64_t action) { what.program[static_cast<std::size_t>(what.actions++)] = action; };
  for (int i = 0; i < results; ++i) act(kResultAllocation);
  act(r.workspace_bytes());
  for (int i = 0; i < kept; ++i) act(kResultAllocation);
  act(-1);
  return what;
}

void backward(LayerBuilder& b, NodeBuilder& node, const Recurrence& r, std::span<const TensorId> states,
              std::span<const TensorId> all, TensorId y, TensorId reserve) {
  const TensorId x = all.front();
  const Operand dy = node.contiguous(node.grad());
  std::vector<Operand> reads{dy, y, reserve};
  for (const TensorId s : states) {
    reads.push_back(node.run("aten::zeros_like", Fill{b.elements(s)}, {}, b.shape(s), r.dtype));
    reads.push_back(s);
  }
  const std::vector<TensorId> trained(all.begin() + 1, all.end());
  std::vector<Operand> for_input = reads;
  for_input.insert(for_input.end(), trained.begin(), trained.end());
  std::vector<OutputSpec> made{{{r.steps, r.batch, r.features}, r.dtype}};
  for (const TensorId s : states) made.push_back({b.shape(s), r.dtype});
  const auto gradients =
      node.run_many("aten::_cudnn_rnn_backward_input", kernel(r, static_cast<int>(made.size()), 0), for_input, made);
  if (node.needs(x)) node.give(x, gradients[0]);
  reads.push_back(x);
  std::vector<OutputSpec> of_weights;
  for (const TensorId w : trained) of_weights.push_back({b.shape(w), r.dtype});
  Scripted sums{.macs = r.macs(), .program = {r.workspace_bytes(), -1}, .actions = 2};
  const auto dw = node.run_many("aten::_cudnn_rnn_backward_weight", sums, reads, of_weights);
  for (std::size_t i = 0; i < trained.size(); ++i)
    if (node.needs(trained[i])) node.give(trained[i], dw[i]);
}

void lower(LayerBuilder& b, Cell cell) {
  Recurrence r = recurrence(b, cell);
  std::vector<TensorId> all{b.input()};
  const std::vector<TensorId> own = weights(b, r);
  std::vector<TensorId> states;
  for (int i = 0; i < r.states(); ++i)
    states.push_back(aten::no_grad(b, "aten::zeros", {}, r.state(), b.dtype(all.front())));
  all.front() = b.autocast_lower(all.front());
  for (const TensorId w : own) all.push_back(b.autocast_lower(w));
  r.dtype = b.dtype(all.front());
  TensorId x = all.front();
  if (r.batch_first) x = aten::transpose(b, x, 0, 1);
  all.front() = x;
  const Shape in = b.shape(x);
  const TensorId dense = b.contiguous(x) ? x : b.emit("aten::clone", Copy{in.elements()}, {x}, in, r.dtype);
  std::vector<TensorId> reads(all.begin() + 1, all.end());
  reads.push_back(dense);
  reads.insert(reads.end(), states.begin(), states.end());
  std::vector<OutputSpec> made{{r.result(), r.dtype}};
  for (const TensorId s : states) made.push_back({b.shape(s), r.dtype});
  const auto results = static_cast<int>(made.size());
  if (b.training()) made.push_back({{r.reserve_bytes()}, DType::boolean});
  const auto out = b.emit_many("aten::_cudnn_rnn", kernel(r, results, b.training() ? 1 : 0), reads, made);
  if (NodeBuilder node = b.node("CudnnRnnBackward0", std::span(out.data(), 1), all))
    backward(b, node, r, states, all, out.front(), out.back());
  std::vector<TensorId> given(out.begin(), out.begin() + results);
  if (r.batch_first) given.front() = aten::transpose(b, given.front(), 0, 1);
  b.outputs(given);
}

void lower_lstm(LayerBuilder& b) { lower(b, Cell::lstm); }
void lower_gru(LayerBuilder& b) { lower(b, Cell::gru); }

const std::vector<ParameterDef> kParameters = {
    {"input_size", ParameterType::size, "", "size of the last input dimension, or _"},
    {"hidden_size", ParameterType::size, "", "size of the state"},
    {"num_layers", ParameterType::size, "1", "layers, each on the results of the one before"},
    {"bias", ParameterType::boolean, "True", "adds two biases a layer and direction"},
    {"batch_first", ParameterType::boolean, "False", "[batch, tokens, features] instead of [tokens, batch, features]"},
    {"dropout", ParameterType::real, "0.0", "between layers; its mask is part of the reserve"},
    {"bidirectional", ParameterType::boolean, "False", "a second direction"}};

const LayerDef kLstm{
    .name = "LSTM",
    .summary = "long short-term memory over a sequence, by cuDNN",
    .math =
        "x [t, b, i] -> y [t, b, d h], the last states [l d, b, h] as name.1 and name.2, with d directions and l "
        "layers.\n"
        "4 h (i + h) multiply-adds a step, layer and direction. Saved: x, the first states, y and cuDNN's reserve,\n"
        "whose size is assumed: (5 l + l - 1) values for each of y's.",
    .parameters = kParameters,
    .lower = lower_lstm,
    .example = {.call = "LSTM(64, 128, 2)",
                .input_shapes = {{30, 1, 64}},
                .output_shape = {30, 1, 128},
                .parameters = 231'424,
                .forward_macs = 6'881'280,
                .backward_macs = 13'762'560,
                .saved_bytes = 194'048,
                .derivation = "30*4*128*(64 + 128 + 128 + 128) multiply-adds; x 30*64*4, two states of 2*128*4, y "
                              "30*128*4 and 11 times that"},
};

const LayerDef kGru{
    .name = "GRU",
    .summary = "gated recurrent unit over a sequence, by cuDNN",
    .math =
        "x [t, b, i] -> y [t, b, d h], the last state [l d, b, h] as name.1, with d directions and l layers.\n"
        "3 h (i + h) multiply-adds a step, layer and direction. Saved: x, the first state, y and cuDNN's reserve,\n"
        "whose size is assumed: (6 l + l - 1) values for each of y's.",
    .parameters = kParameters,
    .lower = lower_gru,
    .example = {.call = "GRU(64, 128, bidirectional=True)",
                .input_shapes = {{30, 1, 64}},
                .output_shape = {30, 1, 256},
                .parameters = 148'992,
                .forward_macs = 4'423'680,
                .backward_macs = 8'847'360,
                .saved_bytes = 223'744,
                .derivation = "30*2*3*128*(64 + 128) multiply-adds; x 30*64*4, a state of 2*128*4, y 30*256*4 and 6 "
                              "times that"},
};

const LayerDef* const kLayers[] = {&kLstm, &kGru};

}  // namespace

std::span<const LayerDef* const> recurrent_layers() { return kLayers; }

}  // namespace gpuplan::layers
