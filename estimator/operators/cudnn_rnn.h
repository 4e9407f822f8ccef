// What cuDNN's recurrent layers take in device memory. Plain values in, bytes out: the plan and the CUDA runtime of
// `gpuplan shadow`, which compiles this file too, answer by the same rules.
#pragma once

#include <cstdint>

namespace gpuplan::cudnn_rnn {

enum class Cell : std::uint8_t { relu = 0, tanh = 1, lstm = 2, gru = 3 };         // as cudnnRNNMode_t
enum class Bias : std::uint8_t { none = 0, input = 1, both = 2, recurrent = 3 };  // as cudnnRNNBiasMode_t

/// What cudnnSetRNNDescriptor_v8 is told of a stack of recurrent layers.
struct Stack {
  Cell cell = Cell::lstm;
  Bias bias = Bias::both;  // PyTorch's, also without a bias
  bool bidirectional = false;
  bool skip_input = false;       // CUDNN_SKIP_INPUT: the first layer has no input matrix
  bool persistent = false;       // CUDNN_RNN_ALGO_PERSIST_STATIC
  bool dropout = false;          // between layers, with a probability above 0
  bool padded_io = false;        // CUDNN_RNN_PADDED_IO_ENABLED: PyTorch's, but for packed sequences
  std::int64_t value_bytes = 4;  // of the type
  std::int64_t input = 0;        // features
  std::int64_t hidden = 0;       // features of a state
  std::int64_t projection = 0;   // features of a projected state; `hidden`: none
  std::int64_t layers = 1;

  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  bool projects() const { return projection != hidden; }
};

/// Gates of a cell: matrices that multiply the input, and as many that multiply the state.
constexpr std::int64_t gates(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

/// Where a matrix and a bias lie in the weight space. Without bytes where the layer has none.
struct WeightPlace {
  std::int64_t matrix_offset = 0;  // bytes
  std::int64_t rows = 0, columns = 0;
  std::int64_t bias_offset = 0;  // bytes
  std::int64_t bias_values = 0;
};

/// cudnnGetRNNWeightSpaceSize(), bytes: the sum of all matrices and biases, without padding.
std::int64_t weight_space_bytes(const Stack& rnn);
/// cudnnGetRNNWeightParams(): `pseudo_layer` counts layers, twice with two directions; `linear` counts the gates'
/// input matrices, then their recurrent ones, then an LSTM's projection. All matrices come first, then all biases.
WeightPlace weight_place(const Stack& rnn, std::int64_t pseudo_layer, std::int64_t linear);

struct Sequences {
  std::int64_t batch = 0;
  std::int64_t steps = 0;   // of the longest
  std::int64_t tokens = 0;  // of all: batch * steps unless some are shorter
};

/// The workspace of cudnnGetRNNTempSpaceSizes(), bytes. Not documented. With padded_io what cuDNN 9.19 answers on an
/// H200 by the standard algorithm (tests/reference/h200/questions/rnn.tsv.gz): 19,395 of 20,160 to the byte, the others
/// are up to 224 B more; without it, and within 512 B, what 9.10 and 9.26 answer without a live GPU, an upper bound in
/// training with several layers one way, where backward needs more than forward (an input wider than the gates, plain
/// cells). `capability`: compute capability, major * 10 + minor.
std::int64_t workspace_bytes(const Stack& stack, int capability, const Sequences& x, bool training);
/// Its reserve, which training keeps for backward, bytes; from the same source, the same on every GPU.
std::int64_t reserve_bytes(const Stack& stack, const Sequences& x);

/// cudnnDropoutGetStatesSize(), bytes. Not documented: what cuDNN 9.10 and 9.26 answer for any number of
/// multiprocessors and threads.
std::int64_t dropout_states_bytes(std::int64_t multiprocessors, std::int64_t threads_per_multiprocessor);

}  // namespace gpuplan::cudnn_rnn
