// What cuDNN's recurrent layers take in memory, as functions of the layer's shape.
#pragma once

#include <cstddef>
#include <cstdint>

#include "validate/shadow/session.h"

namespace gpuplan::shadow::cudnn {

enum class Cell : int { relu = 0, tanh = 1, lstm = 2, gru = 3 };         // cudnnRNNMode_t
enum class Bias : int { none = 0, input = 1, both = 2, recurrent = 3 };  // cudnnRNNBiasMode_t

/// A cudnnRNNDescriptor_t.
struct Rnn {
  int algorithm = 0;  // cudnnRNNAlgo_t
  Cell cell = Cell::lstm;
  Bias bias = Bias::both;
  bool bidirectional = false;
  bool skip_input = false;  // CUDNN_SKIP_INPUT: the first layer has no input matrix
  int type = 0;             // cudnnDataType_t
  int math_precision = 0, math_type = 0;
  std::int64_t input = 0, hidden = 0, projection = 0;  // projection == hidden: none
  std::int64_t layers = 0;
  float dropout = 0;
  unsigned flags = 0;

  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  bool projects() const { return projection != hidden; }
};

/// Gates of a cell: matrices that multiply the input, and as many that multiply the state.
std::int64_t gates(Cell cell);

/// Where a matrix and a bias lie in the weight space. Without bytes where the layer has none.
struct WeightPlace {
  std::int64_t matrix_offset = 0;  // bytes
  std::int64_t rows = 0, columns = 0;
  std::int64_t bias_offset = 0;  // bytes
  std::int64_t bias_values = 0;
};

/// cudnnGetRNNWeightSpaceSize(): the sum of all matrices and biases, without padding.
std::int64_t weight_space_bytes(const Rnn& rnn);
/// cudnnGetRNNWeightParams(): `pseudo_layer` counts layers, twice with two directions; `linear` counts the gates'
/// input matrices, then their recurrent ones, then an LSTM's projection. All matrices come first, then all biases.
WeightPlace weight_place(const Rnn& rnn, std::int64_t pseudo_layer, std::int64_t linear);

struct Sequences {
  std::int64_t batch = 0;
  std::int64_t steps = 0;   // of the longest
  std::int64_t tokens = 0;  // of all: batch * steps unless some are shorter
};

struct TemporarySpace {
  std::int64_t workspace = 0;  // bytes
  std::int64_t reserve = 0;    // bytes; in training only
};

/// cudnnGetRNNTempSpaceSizes(). Not documented: what cuDNN 9.10 and 9.26 answer without a
/// live GPU, within 512 bytes. An upper bound of the workspace in training with several layers one way, where backward
/// needs more than forward (an input wider than the gates, plain cells): cuDNN then runs the layers in shorter pieces
/// of time.
TemporarySpace temporary_space(const Rnn& rnn, const GpuDescription& gpu, const Sequences& x, bool training);

}  // namespace gpuplan::shadow::cudnn
