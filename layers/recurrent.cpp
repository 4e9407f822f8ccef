// LSTM, GRU, RNN: torch.nn's recurrent layers by cuDNN (torch/nn/modules/rnn.py).
//
// The weights are moved into one storage when the module is built. forward makes zeros for the first states, and the
// first training step with dropout the random states that are kept from then on. The sizes of cuDNN's reserve and
// workspace are cuDNN's answers without a GPU (estimator/operators/cudnn_rnn.h). bf16 before PyTorch 2.10 runs without
// cuDNN, which is not modelled: it is planned as if cuDNN ran it.
#include "estimator/aten/recurrent.h"

#include <string>

#include "estimator/aten/pointwise.h"
#include "estimator/base/integers.h"
#include "estimator/graph/model_builder.h"

namespace gpuplan::layers::recurrent {
namespace {

using cudnn_rnn::Cell;
using cudnn_rnn::Stack;

constexpr std::int64_t kMaxLayers = 64;

aten::Recurrent recurrent_of(LayerBuilder& b, Cell cell) {
  b.expect_rank(3, "[tokens, batch, features], or [batch, tokens, features] with batch_first");
  aten::Recurrent r{.stack = {.cell = cell}, .batch_first = b.boolean("batch_first"), .bias = b.boolean("bias")};
  Stack& s = r.stack;
  s.value_bytes = size_of(b.run().precision);
  s.input = b.size("input_size", b.shape(b.input())[2], "input features");
  s.hidden = s.projection = b.size("hidden_size");
  s.layers = b.size("num_layers");
  s.bidirectional = b.boolean("bidirectional");
  if (s.layers > kMaxLayers)
    b.fail("num_layers", "at most " + std::to_string(kMaxLayers) + " recurrent layers are supported");
  r.dropout = aten::probability(b, "dropout");
  s.dropout = r.dropout > 0;
  if (cell != Cell::lstm) return r;
  const std::int64_t projection = b.integer("proj_size");
  if (projection < 0 || projection >= s.hidden)
    b.fail("proj_size", "proj_size has to be smaller than hidden_size", "0: none");
  if (projection > 0) s.projection = projection;
  return r;
}

// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0", then those of "_reverse", of every layer.
const std::vector<std::string>& weight_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (std::int64_t l = 0; l < kMaxLayers; ++l)
      for (const char* direction : {"", "_reverse"})
        for (const char* kind : {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l", "weight_hr_l"})
          names.push_back(kind + std::to_string(l) + direction);
    return names;
  }();
  return kNames;
}

std::vector<TensorId> weights_of(LayerBuilder& b, const aten::Recurrent& r) {
  const Stack& s = r.stack;
  std::vector<TensorId> all;
  const std::int64_t rows = checked_mul(gates(s.cell), s.hidden);
  for (std::int64_t l = 0; l < s.layers; ++l)
    for (std::int64_t d = 0; d < s.directions(); ++d) {
      const std::string* name = &weight_names()[static_cast<std::size_t>(5 * (2 * l + d))];
      all.push_back(b.parameter(name[0], {rows, l == 0 ? s.input : s.directions() * s.projection}));
      all.push_back(b.parameter(name[1], {rows, s.projection}));
      if (r.bias) {
        all.push_back(b.parameter(name[2], {rows}));
        all.push_back(b.parameter(name[3], {rows}));
      }
      if (s.projects()) all.push_back(b.parameter(name[4], {s.projection, s.hidden}));
    }
  if (aten::flattens(b.run().precision)) ModelBuilder(b).flatten(all, weight_offsets(r), weight_space_bytes(s));
  return all;
}

void lower(LayerBuilder& b, Cell cell) {
  const aten::Recurrent r = recurrent_of(b, cell);
  const std::vector<TensorId> weights = weights_of(b, r);
  const Shape in = b.shape(b.input());
  Shape state{r.stack.layers * r.stack.directions(), in[r.batch_first ? 0 : 1], r.stack.projection};
  const DType dtype = b.dtype(b.input());
  std::vector<TensorId> states{aten::no_grad(b, Operator::zeros, {}, state, dtype)};
  state.set(2, r.stack.hidden);
  if (cell == Cell::lstm) states.push_back(aten::no_grad(b, Operator::zeros, {}, state, dtype));
  if (r.stack.dropout && b.training()) b.emit_many(Operator::_cudnn_init_dropout_state, DropoutStates{}, {}, {});
  b.outputs(aten::recurrent(b, r, b.input(), weights, states));
}

void lower_lstm(LayerBuilder& b) { lower(b, Cell::lstm); }
void lower_gru(LayerBuilder& b) { lower(b, Cell::gru); }
void lower_rnn(LayerBuilder& b) {
  const std::string_view function = b.word("nonlinearity");
  if (function != "tanh" && function != "relu")
    b.fail("nonlinearity", "unknown nonlinearity \"" + std::string(function) + "\"", "expected tanh or relu");
  lower(b, function == "tanh" ? Cell::tanh : Cell::relu);
}

std::vector<ParameterDef> parameters(std::vector<ParameterDef> after_layers, std::vector<ParameterDef> last) {
  std::vector<ParameterDef> all{
      {"input_size", ParameterType::size, "", "size of the last input dimension, or _"},
      {"hidden_size", ParameterType::size, "", "size of the state"},
      {"num_layers", ParameterType::size, "1", "layers, each on the results of the one before"}};
  const std::vector<ParameterDef> common{
      {"bias", ParameterType::boolean, "True", "adds two biases a layer and direction"},
      {"batch_first", ParameterType::boolean, "False",
       "[batch, tokens, features] instead of [tokens, batch, features]"},
      {"dropout", ParameterType::real, "0.0", "between layers; its mask is part of the reserve"},
      {"bidirectional", ParameterType::boolean, "False", "a second direction"}};
  for (const std::vector<ParameterDef>& more : {after_layers, common, last})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

const LayerDef kLayers[] = {
    {.name = "LSTM",
     .summary = "long short-term memory over a sequence, by cuDNN",
     .math =
         "x [t, b, i] -> y [t, b, d p], the last states [l d, b, p] as name.1 and [l d, b, h] as name.2, with d\n"
         "directions and l layers; p is proj_size, or h without.\n4 h (i + p) multiply-adds a step, layer and "
         "direction, and p h with proj_size. Saved: x, the first states, y\nand cuDNN's reserve: 5 d t b h values a "
         "layer (with proj_size d t b p more), d t b h between layers and 256\nbytes. Its size and the workspace's "
         "are what cuDNN 9.10 and 9.26 report without a GPU.",
     .parameters = parameters({}, {{"proj_size", ParameterType::integer, "0", "size that states are projected to"}}),
     .lower = lower_lstm,
     .example = {.call = "LSTM(64, 128, 2)",
                 .input_shapes = {{30, 1, 64}},
                 .output_shape = {30, 1, 128},
                 .parameters = 231'424,
                 .forward_macs = 6'881'280,
                 .backward_macs = 13'762'560,
                 .saved_bytes = 194'304,
                 .derivation = "30*4*128*(64 + 128 + 128 + 128) multiply-adds; x 30*64*4, two states of 2*128*4, y "
                               "30*128*4, 11 times that and 256"}},
    {.name = "GRU",
     .summary = "gated recurrent unit over a sequence, by cuDNN",
     .math =
         "x [t, b, i] -> y [t, b, d h], the last state [l d, b, h] as name.1, with d directions and l layers.\n"
         "3 h (i + h) multiply-adds a step, layer and direction. Saved: x, the first state, y and cuDNN's reserve:\n"
         "6 d t b h values a layer, d t b h between layers and 256 bytes. Its size and the workspace's are what cuDNN\n"
         "9.10 and 9.26 report without a GPU.",
     .parameters = parameters({}, {}),
     .lower = lower_gru,
     .example = {.call = "GRU(64, 128, bidirectional=True)",
                 .input_shapes = {{30, 1, 64}},
                 .output_shape = {30, 1, 256},
                 .parameters = 148'992,
                 .forward_macs = 4'423'680,
                 .backward_macs = 8'847'360,
                 .saved_bytes = 224'000,
                 .derivation =
                     "30*2*3*128*(64 + 128) multiply-adds; x 30*64*4, a state of 2*128*4, y 30*256*4, 6 times "
                     "that and 256"}},
    {.name = "RNN",
     .summary = "recurrent layer without gates over a sequence, by cuDNN",
     .math =
         "x [t, b, i] -> y [t, b, d h], the last state [l d, b, h] as name.1, with d directions and l layers.\n"
         "h (i + h) multiply-adds a step, layer and direction. Saved: x, the first state, y and cuDNN's reserve:\n"
         "d t b h values a layer, as many between layers and 256 bytes. Its size and the workspace's are what cuDNN\n"
         "9.10 and 9.26 report without a GPU.",
     .parameters = parameters({{"nonlinearity", ParameterType::word, "tanh", "tanh or relu"}}, {}),
     .lower = lower_rnn,
     .example = {.call = "RNN(64, 128)",
                 .input_shapes = {{30, 1, 64}},
                 .output_shape = {30, 1, 128},
                 .parameters = 24'832,
                 .forward_macs = 737'280,
                 .backward_macs = 1'474'560,
                 .saved_bytes = 39'168,
                 .derivation =
                     "30*128*(64 + 128) multiply-adds; x 30*64*4, a state of 128*4, y 30*128*4, as much again "
                     "and 256"}},
};

}  // namespace

std::span<const LayerDef> layers() { return kLayers; }

}  // namespace gpuplan::layers::recurrent
