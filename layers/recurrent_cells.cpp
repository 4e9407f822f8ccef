// LSTMCell, GRUCell, RNNCell: one step of a recurrence (aten/src/ATen/native/RNN.cpp,
// aten/src/ATen/native/cuda/RNN.cu).
//
// LSTM and GRU: two products without a bias, igates = x W_ih^T and hgates = h W_hh^T, then one kernel that adds the
// biases and keeps the gates in a workspace of 4 (LSTM) or 5 (GRU) times the state. derivatives.yaml saves both
// products, the states, the biases and the workspace; the kernel's backward gives the gradients of the products and of
// the state, and sums over the batch give those of the biases: one for both of an LSTM. RNN: two linear layers, added
// in place. Autocast casts all operands, the last one first. A state that is not given is made of zeros.

#include <string>

#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
#include "estimator/base/integers.h"

namespace gpuplan::layers::recurrent_cells {
namespace {

struct Cell {
  TensorId x = kNone, zeros = kNone, h = kNone, c = kNone, w_ih = kNone, w_hh = kNone, b_ih = kNone, b_hh = kNone;
  std::int64_t batch = 0, hidden = 0;
  Shape state() const { return {batch, hidden}; }
};

Cell cell(LayerBuilder& b, std::int64_t gates, bool has_cell) {
  b.expect_rank(2, "[N, input_size]");
  Cell s;
  s.x = b.input();
  const std::int64_t inputs = b.size("input_size", b.shape(s.x)[1], "input features");
  s.batch = b.shape(s.x)[0];
  s.hidden = b.size("hidden_size");
  const std::int64_t rows = checked_mul(gates, s.hidden);
  s.w_ih = b.parameter("weight_ih", {rows, inputs});
  s.w_hh = b.parameter("weight_hh", {rows, s.hidden});
  if (b.boolean("bias")) {
    s.b_ih = b.parameter("bias_ih", {rows});
    s.b_hh = b.parameter("bias_hh", {rows});
  }
  const int states = has_cell ? 2 : 1;
  if (b.input_count() != 1 && b.input_count() != 1 + states)
    b.fail("expects its input and " + std::string(has_cell ? "two states" : "a state") + ", or the input alone");
  if (b.input_count() == 1) {
    s.h = b.emit(Operator::zeros, Fill{s.batch * s.hidden}, {}, s.state(), b.dtype(s.x));
    s.c = s.zeros = s.h;
  } else {
    s.h = b.input(1);
    if (has_cell) s.c = b.input(2);
  }
  const TensorId given[] = {s.h, has_cell ? s.c : s.h};
  for (const TensorId t : given)
    if (b.shape(t) != s.state()) b.fail("expects states " + to_string(s.state()) + ", got " + to_string(b.shape(t)));
  return s;
}

// C++ evaluates the arguments of the cast call from the last to the first; the states are a list.
Cell lowered(LayerBuilder& b, Cell s) {
  s.b_hh = b.cached_cast(s.b_hh);
  s.b_ih = b.cached_cast(s.b_ih);
  s.w_hh = b.cached_cast(s.w_hh);
  s.w_ih = b.cached_cast(s.w_ih);
  s.h = b.cached_cast(s.h);
  if (s.c != kNone) s.c = b.cached_cast(s.c);
  s.x = b.cached_cast(s.x);
  return s;
}

Operand summed(NodeBuilder& node, LayerBuilder& b, Operand gates, TensorId bias) {
  const Shape shape = node.shape(gates);
  const DType dtype = node.dtype(gates);
  const Operand sum = node.run(Operator::sum, Reduction{shape, 0b1U, dtype, dtype}, {gates}, b.shape(bias), dtype);
  node.attributes({{Attribute::dims, 1}});
  return sum;
}

void lower_lstm(LayerBuilder& b) {
  const Cell s = lowered(b, cell(b, 4, true));
  const TensorId igates = aten::linear(b, s.x, s.w_ih, kNone), hgates = aten::linear(b, s.h, s.w_hh, kNone);
  const DType dtype = b.dtype(igates);
  const Shape gates = b.shape(igates);
  const Elementwise work = each_of(Operator::_thnn_fused_lstm_cell, gates);
  const OutputSpec results[] = {{gates, dtype}, {s.state(), dtype}, {s.state(), dtype}};  // the workspace first
  const std::vector<TensorId> made = b.emit_many(Operator::_thnn_fused_lstm_cell, work, {igates, hgates, s.c}, results);
  b.extra({s.b_ih, s.b_hh});
  const TensorId workspace = made[0], outputs[] = {made[1], made[2]}, inputs[] = {igates, hgates, s.c, s.b_ih, s.b_hh};
  const std::size_t count = s.b_ih == kNone ? 3 : 5;
  if (NodeBuilder node = b.node("ThnnFusedLstmCellBackward0", outputs, std::span(inputs).first(count))) {
    for (const TensorId t : inputs)
      if (t != kNone) node.save(t);
    const OutputSpec gradients[] = {{gates, dtype}, {s.state(), dtype}};
    // It reads the gradients, too, of which one may not be there.
    const std::vector<Operand> d =
        node.run_many(Operator::_thnn_fused_lstm_cell_backward_impl, work, {s.c, outputs[1], workspace}, gradients);
    for (const TensorId t : {igates, hgates})
      if (node.needs(t)) node.give(t, d[0]);
    if (node.needs(s.c)) node.give(s.c, d[1]);
    if (s.b_ih != kNone) {
      const Operand sum = summed(node, b, d[0], s.b_ih);
      for (const TensorId t : {s.b_ih, s.b_hh})
        if (node.needs(t)) node.give(t, sum);
    }
    node.hold({d[0], d[1]});
  }
  if (s.zeros != kNone) b.hold({s.zeros});
  b.outputs({outputs[0], outputs[1]});
}

void lower_gru(LayerBuilder& b) {
  const Cell s = lowered(b, cell(b, 3, false));
  const TensorId igates = aten::linear(b, s.x, s.w_ih, kNone), hgates = aten::linear(b, s.h, s.w_hh, kNone);
  const DType dtype = b.dtype(igates);
  const Shape gates = b.shape(igates);
  const Elementwise work = each_of(Operator::_thnn_fused_lstm_cell, gates);
  const OutputSpec results[] = {{{s.batch, checked_mul(5, s.hidden)}, dtype}, {s.state(), dtype}};
  const std::vector<TensorId> made = b.emit_many(Operator::_thnn_fused_gru_cell, work, {igates, hgates, s.h}, results);
  b.extra({s.b_ih, s.b_hh});
  const TensorId inputs[] = {igates, hgates, s.h, s.b_ih, s.b_hh};
  const std::size_t count = s.b_ih == kNone ? 3 : 5;
  if (NodeBuilder node =
          b.node("ThnnFusedGruCellBackward0", std::span(made).subspan(1), std::span(inputs).first(count))) {
    for (const TensorId t : inputs)
      if (t != kNone) node.save(t);
    const OutputSpec gradients[] = {{gates, dtype}, {gates, dtype}, {s.state(), dtype}};
    const std::vector<Operand> d =
        node.run_many(Operator::_thnn_fused_gru_cell_backward, work, {node.grad(), made[0]}, gradients);
    if (node.needs(igates)) node.give(igates, d[0]);
    if (node.needs(hgates)) node.give(hgates, d[1]);
    if (node.needs(s.h)) node.give(s.h, d[2]);
    if (s.b_ih != kNone) {
      const Operand sums[] = {summed(node, b, d[0], s.b_ih), summed(node, b, d[1], s.b_hh)};
      if (node.needs(s.b_ih)) node.give(s.b_ih, sums[0]);
      if (node.needs(s.b_hh)) node.give(s.b_hh, sums[1]);
    }
    node.hold({d[0], d[1], d[2]});
  }
  if (s.zeros != kNone) b.hold({s.zeros});
  b.output(made[1]);
}

void lower_rnn(LayerBuilder& b) {
  if (b.word("nonlinearity") != "tanh" && b.word("nonlinearity") != "relu")
    b.fail("nonlinearity", "unknown nonlinearity \"" + std::string(b.word("nonlinearity")) + "\"",
           "expected tanh or relu");
  const Cell s = lowered(b, cell(b, 1, false));
  const TensorId hgates = aten::linear(b, s.h, s.w_hh, s.b_hh), igates = aten::linear(b, s.x, s.w_ih, s.b_ih);
  const TensorId sum = aten::binary(b, aten::Binary::add, hgates, igates, true);
  b.output(aten::unary(b, sum, b.word("nonlinearity") == "tanh" ? aten::kTanh : aten::kRelu));
  b.hold({igates, sum});
  if (s.zeros != kNone) b.hold({s.zeros});
}

const ParameterDef kInputSize{"input_size", ParameterType::size, "", "features of the input"};
const ParameterDef kHiddenSize{"hidden_size", ParameterType::size, "", "features of the state"};
const ParameterDef kBias{"bias", ParameterType::boolean, "True", "adds bias_ih and bias_hh"};

const LayerDef kLayers[] = {
    {.name = "LSTMCell",
     .summary = "one LSTM step, from an input and two states to two states",
     .math = "x [N, I], h and c [N, H] (zeros where not given) -> h', c'. Saved: x, h, c, c', 12 N H numbers of gates.",
     .parameters = {kInputSize, kHiddenSize, kBias},
     .max_inputs = 3,
     .lower = lower_lstm,
     .example = {.call = "LSTMCell(48, 80)",
                 .input_shapes = {{32, 48}},
                 .output_shape = {32, 80},
                 .parameters = 41'600,
                 .forward_macs = 1'310'720,
                 .backward_macs = 1'802'240,
                 .saved_bytes = 149'504,
                 .derivation = "320*48 + 320*80 weights, 2*320 biases; 32*320*(48 + 80) MACs forward; backward both "
                               "weights' and x's, 32*320*(48 + 80 + 48), the state being zeros without a gradient; x "
                               "32*48*4 bytes, h (which is c) and c' 32*80*4 each, three times gates of 32*320*4"}},
    {.name = "GRUCell",
     .summary = "one step of a GRU: its input and a state to a state",
     .math = "x [N, I], h [N, H] (zeros where not given) -> h'. Saved: x, h, 11 N H numbers of gates.",
     .parameters = {kInputSize, kHiddenSize, kBias},
     .max_inputs = 2,
     .lower = lower_gru,
     .example = {.call = "GRUCell(48, 80)",
                 .input_shapes = {{32, 48}},
                 .output_shape = {32, 80},
                 .parameters = 31'200,
                 .forward_macs = 983'040,
                 .backward_macs = 1'351'680,
                 .saved_bytes = 129'024,
                 .derivation = "240*48 + 240*80 weights, 2*240 biases; 32*240*(48 + 80) MACs forward; backward both "
                               "weights' and x's, 32*240*(48 + 80 + 48); x 32*48*4 bytes, h 32*80*4, twice gates of "
                               "32*240*4 and a workspace of 32*400*4"}},
    {.name = "RNNCell",
     .summary = "one step of a plain recurrence: tanh or relu of two products",
     .math = "x [N, I], h [N, H] (zeros where not given) -> h' = tanh(W_ih x + b_ih + W_hh h + b_hh). Saved: x, h, h'.",
     .parameters = {kInputSize, kHiddenSize, kBias, {"nonlinearity", ParameterType::word, "tanh", "tanh or relu"}},
     .max_inputs = 2,
     .lower = lower_rnn,
     .example = {.call = "RNNCell(48, 80)",
                 .input_shapes = {{32, 48}},
                 .output_shape = {32, 80},
                 .parameters = 10'400,
                 .forward_macs = 327'680,
                 .backward_macs = 450'560,
                 .saved_bytes = 26'624,
                 .derivation =
                     "80*48 + 80*80 weights, 2*80 biases; 32*80*(48 + 80) MACs forward; backward both weights' "
                     "and x's, 32*80*(48 + 80 + 48); x 32*48*4 bytes, h and h' 32*80*4 each"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::recurrent_cells
