// cuDNN says how large the weight space is (the sum of what it holds); how large workspace and reserve are it does not.
// Those rules were found by asking cudnnGetRNNTempSpaceSizes of cuDNN 9.10 and 9.26 with made-up device properties,
// over cells, layers, directions, projections, dropout, types and ragged batches.
// tests/unit/operators/test_cudnn_rnn.cpp holds answers. Nothing of the estimator's is used: the runtime of `gpuplan
// shadow` compiles this file too.
#include "estimator/operators/cudnn_rnn.h"

#include <algorithm>
#include <bit>

namespace gpuplan::cudnn_rnn {
namespace {

constexpr std::int64_t kHeader = 256;             // bytes of workspace and of reserve alike
constexpr std::int64_t kGemmWorkspace = 8 << 20;  // bytes, for every layer and direction
constexpr std::int64_t kPiece = 32;               // bytes: what parts of the reserve are aligned to

// Dropout's generators, curandStateXORWOW_t, one for every second thread that the GPU can hold at a time, in blocks.
constexpr std::int64_t kGeneratorBytes = 48;
constexpr std::int64_t kGeneratorBlock = 256;

std::int64_t align(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

/// Features that go into `layer`.
std::int64_t width(const Stack& rnn, std::int64_t layer) {
  return layer == 0 ? rnn.input : rnn.directions() * rnn.projection;
}

std::int64_t bias_vectors(const Stack& rnn) {
  if (rnn.bias == Bias::none) return 0;
  return (rnn.bias == Bias::both ? 2 : 1) * gates(rnn.cell);
}

/// Values of the matrices of one direction of `layer`.
std::int64_t matrix_values(const Stack& rnn, std::int64_t layer) {
  const bool reads_input = layer > 0 || !rnn.skip_input;
  const std::int64_t columns = (reads_input ? width(rnn, layer) : 0) + rnn.projection;
  return gates(rnn.cell) * rnn.hidden * columns + (rnn.projects() ? rnn.projection * rnn.hidden : 0);
}

std::int64_t all_matrix_values(const Stack& rnn) {
  std::int64_t values = 0;
  for (std::int64_t layer = 0; layer < rnn.layers; ++layer) values += rnn.directions() * matrix_values(rnn, layer);
  return values;
}

/// Which of a layer's bias vectors belongs to `linear`; -1: none.
std::int64_t bias_index(const Stack& rnn, std::int64_t linear) {
  const std::int64_t count = gates(rnn.cell);
  if (linear >= 2 * count) return -1;
  switch (rnn.bias) {
    case Bias::none: return -1;
    case Bias::input: return linear < count ? linear : -1;
    case Bias::recurrent: return linear < count ? -1 : linear - count;
    case Bias::both: return linear;
  }
  return -1;
}

/// Values a sequence that a layer and direction keeps of its state while it runs.
std::int64_t state_values(const Stack& rnn) {
  const std::int64_t one_way = rnn.cell == Cell::lstm ? 6 : rnn.cell == Cell::gru ? 3 : 1;
  return one_way + (rnn.bidirectional ? 2 : 0);
}

/// ... while it runs backward.
std::int64_t backward_state_values(const Stack& rnn) {
  return (rnn.cell == Cell::lstm ? 3 : 1) + (rnn.bidirectional ? 2 : 0);
}

std::int64_t forward_bytes(const Stack& rnn, const Sequences& x) {
  std::int64_t values = rnn.directions() * (gates(rnn.cell) + (rnn.projects() ? 1 : 0));
  if (rnn.bidirectional)
    values += 4;
  else if (rnn.dropout)
    values += 1;
  const std::int64_t states = rnn.layers * rnn.directions() * state_values(rnn) * x.batch;
  return (values * x.tokens + states) * rnn.hidden * rnn.value_bytes;
}

std::int64_t backward_bytes(const Stack& rnn, const Sequences& x) {
  const std::int64_t inputs = (rnn.bidirectional ? 4 : 1) * std::max(rnn.input, rnn.hidden);
  std::int64_t outputs = rnn.hidden;
  if (rnn.bidirectional) outputs *= rnn.layers > 1 ? 4 : 2;
  if (rnn.projects()) outputs += rnn.directions() * rnn.hidden;
  const std::int64_t states = rnn.layers * rnn.directions() * backward_state_values(rnn) * x.batch;
  return ((inputs + outputs) * x.tokens + states * rnn.hidden) * rnn.value_bytes;
}

/// Sequences and states, first and last ones, copied without what pads them; an LSTM's cells are states, too.
std::int64_t padded_io_bytes(const Stack& rnn, const Sequences& x) {
  const auto bytes = [&](std::int64_t vectors, std::int64_t width) {
    return align(vectors * width * rnn.value_bytes, kPiece);
  };
  const std::int64_t tokens = x.batch * x.steps, states = rnn.layers * rnn.directions() * x.batch;
  return bytes(tokens, rnn.input) + bytes(tokens, rnn.directions() * rnn.projection) +
         2 * (bytes(states, rnn.projection) + (rnn.cell == Cell::lstm ? bytes(states, rnn.hidden) : 0));
}

/// Backward through several layers one way, batches above 1 go through the layers in pieces of time, so that an
/// output's gradient is there for some steps only: a piece for each layer, and eight. Read at 7, 16, 35, 100 and 128
/// steps.
std::int64_t steps_not_held(const Stack& rnn, const Sequences& x) {
  if (rnn.layers < 2 || rnn.bidirectional || x.batch < 2) return 0;
  const int log2_steps = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(x.steps))) - 1;
  const std::int64_t piece = std::int64_t{1} << std::max(0, (log2_steps - 1) / 2);
  return std::max<std::int64_t>(0, x.steps - (rnn.layers * piece + 8));
}

/// A bit a value between layers, for each pair of directions.
std::int64_t mask_bytes(const Stack& rnn, const Sequences& x) {
  if (!rnn.dropout || rnn.layers < 2) return 0;
  const std::int64_t bits = x.batch * x.steps * rnn.projection * rnn.directions() * rnn.directions();
  return (rnn.layers - 1) * align((bits + 7) / 8, kPiece);
}

}  // namespace

std::int64_t weight_space_bytes(const Stack& rnn) {
  const std::int64_t biases = rnn.layers * rnn.directions() * bias_vectors(rnn) * rnn.hidden;
  return (all_matrix_values(rnn) + biases) * rnn.value_bytes;
}

WeightPlace weight_place(const Stack& rnn, std::int64_t pseudo_layer, std::int64_t linear) {
  const std::int64_t count = gates(rnn.cell);
  const std::int64_t layer = pseudo_layer / rnn.directions();
  std::int64_t offset = pseudo_layer % rnn.directions() * matrix_values(rnn, layer);
  for (std::int64_t before = 0; before < layer; ++before) offset += rnn.directions() * matrix_values(rnn, before);

  WeightPlace place;
  const std::int64_t input_columns = layer == 0 && rnn.skip_input ? 0 : width(rnn, layer);
  if (linear < count) {
    place = {.rows = rnn.hidden, .columns = input_columns};
    offset += linear * rnn.hidden * input_columns;
  } else if (linear < 2 * count) {
    place = {.rows = rnn.hidden, .columns = rnn.projection};
    offset += count * rnn.hidden * input_columns + (linear - count) * rnn.hidden * rnn.projection;
  } else if (linear == 2 * count && rnn.projects()) {
    place = {.rows = rnn.projection, .columns = rnn.hidden};
    offset += count * rnn.hidden * (input_columns + rnn.projection);
  }
  place.matrix_offset = offset * rnn.value_bytes;
  if (const std::int64_t bias = bias_index(rnn, linear); bias >= 0) {
    const std::int64_t vector = pseudo_layer * bias_vectors(rnn) + bias;
    place.bias_offset = (all_matrix_values(rnn) + vector * rnn.hidden) * rnn.value_bytes;
    place.bias_values = rnn.hidden;
  }
  return place;
}

std::int64_t workspace_bytes(const Stack& rnn, int capability, const Sequences& x, bool training) {
  // Compute capability 8.x runs several layers one way without a workspace for each layer's multiplications.
  const bool ampere = capability >= 80 && capability < 90;
  const bool shared = ampere && rnn.layers > 1 && !rnn.bidirectional;
  const std::int64_t forward = forward_bytes(rnn, x);
  const std::int64_t io = rnn.padded_io ? padded_io_bytes(rnn, x) : 0;
  std::int64_t backward = backward_bytes(rnn, x) + io;
  if (rnn.padded_io) backward -= steps_not_held(rnn, x) * x.batch * rnn.hidden * rnn.value_bytes;
  const std::int64_t lengths = rnn.padded_io ? 2 * align(x.batch * std::int64_t{sizeof(std::int32_t)}, 16) : 0;
  const std::int64_t piece = rnn.padded_io ? kPiece : 1;
  // The persistent algorithm has what the standard one has, and as much again, before compute capability 10.
  const bool twice = rnn.persistent && capability < 100;
  return kHeader + io + lengths + (shared ? 0 : rnn.layers * rnn.directions() * kGemmWorkspace) +
         (twice ? 2 : 1) * (align(all_matrix_values(rnn) * rnn.value_bytes, piece) +
                            align(training ? std::max(forward, backward) : forward, piece));
}

std::int64_t reserve_bytes(const Stack& rnn, const Sequences& x) {
  // Kept for backward: every layer's gates and what its cell makes of them, and what goes from layer to layer.
  const std::int64_t value = rnn.directions() * x.tokens * rnn.hidden * rnn.value_bytes;
  const std::int64_t made = (rnn.cell == Cell::lstm ? 1 : rnn.cell == Cell::gru ? 3 : 0) + (rnn.projects() ? 1 : 0);
  const std::int64_t projected = rnn.projects() ? rnn.directions() * x.tokens * rnn.projection * rnn.value_bytes : 0;
  const std::int64_t layer =
      align(gates(rnn.cell) * value, kPiece) + align(made * value, kPiece) + align(projected, kPiece);
  return kHeader + rnn.layers * layer + (rnn.layers - 1) * align(value, kPiece) + mask_bytes(rnn, x);
}

std::int64_t dropout_states_bytes(std::int64_t multiprocessors, std::int64_t threads_per_multiprocessor) {
  return align(multiprocessors * (threads_per_multiprocessor / 2), kGeneratorBlock) * kGeneratorBytes;
}

}  // namespace gpuplan::cudnn_rnn
